import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';
import type { CrashAt } from '../chaos/await-points.ts';
import type { RelayProcessOptions } from '../chaos/relay-process.ts';
import type { TestDatabase } from './database.ts';
import type { SqsStub } from './sqs-stub.ts';

/** A relay in a process of its own, which can be killed and frozen. */
export interface RelayChild {
  signal(signal: NodeJS.Signals): void;
  /** Resolves when it has ended, with the signal that ended it. */
  readonly ended: Promise<NodeJS.Signals | null>;
}

/** Starts one that sends the destination `queue` to `stub`; ended when the test is over at the latest. */
export function relayChild(
  database: TestDatabase,
  stub: SqsStub,
  more: { readonly leaseSeconds?: number; readonly timeoutMs?: number; readonly crash?: CrashAt } = {},
): RelayChild {
  const { host, port, database: name, user, ...auth } = database.config('sealed_relay');
  const { leaseSeconds = 30, timeoutMs = 5_000, crash } = more;
  const options: RelayProcessOptions = {
    kind: 'ours',
    index: 0,
    database: { host, port, database: name, user, password: 'password' in auth ? auth.password : '' },
    queuePort: stub.port,
    urls: { queue: stub.url },
    leaseSeconds,
    timeoutMs,
    verbose: false,
    ...(crash && { crash }),
  };
  const child: ChildProcess = spawn(process.execPath, ['test/chaos/relay-process.ts', JSON.stringify(options)], {
    // The pipe to its stdin tells it when this process is gone.
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  child.stdin?.on('error', () => {});
  const ended = once(child, 'close').then(([, signal]) => signal as NodeJS.Signals | null);
  // Also ends what is frozen, which would not notice that this process is gone.
  const kill = (): void => void child.kill('SIGKILL');
  process.once('exit', kill);
  onTestFinished(async () => {
    kill();
    await ended;
    process.off('exit', kill);
  });
  return { signal: (signal) => void child.kill(signal), ended };
}
