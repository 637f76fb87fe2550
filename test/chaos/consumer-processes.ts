import type { ChildProcess } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import type { ConsumerProcessOptions } from './consumer-process.ts';
import type { ConsumerReport } from './consumers.ts';
import { spawnProgram } from './program.ts';

export interface ConsumerProcessesOptions {
  readonly count: number;
  readonly program: string;
  readonly common: Omit<ConsumerProcessOptions, 'index'>;
  readonly onReport: (report: ConsumerReport) => void;
}

/** The processes with the consumers, each started again when it is killed. */
export interface ConsumerProcesses {
  readonly count: number;
  kill(index: number): void;
  /** Stops one (SIGSTOP) and lets it go on where it stood. */
  freeze(index: number, ms: number): Promise<void>;
  /** Ends them; where a handler hangs, without waiting for it. */
  stop(): Promise<void>;
  /** Rejects when one ends by itself. */
  readonly broken: Promise<never>;
}

/** Milliseconds. */
const FINISHING_MS = 3_000;

export function startConsumers({ count, program, common, onReport }: ConsumerProcessesOptions): ConsumerProcesses {
  const children = new Map<number, ChildProcess>();
  const { promise: broken, reject } = Promise.withResolvers<never>();
  broken.catch(() => {}); // a run that is over asks no more
  let stopped = false;
  const live = async (index: number): Promise<void> => {
    // oxlint-disable-next-line no-unmodified-loop-condition -- `stop` sets it while one lives
    while (!stopped) {
      const { child, ended } = spawnProgram(program, { ...common, index } satisfies ConsumerProcessOptions, (line) =>
        onReport(JSON.parse(line) as ConsumerReport),
      );
      children.set(index, child);
      const code = await ended;
      children.delete(index);
      if (stopped) return;
      if (code !== null) {
        reject(new Error(`the consumers ended with ${code}`));
        return;
      }
      await delay(20);
    }
  };
  const lives = Array.from({ length: count }, (_, index) => live(index));
  return {
    count,
    kill: (index) => void children.get(index)?.kill('SIGKILL'),
    async freeze(index, ms) {
      const child = children.get(index);
      if (child === undefined) return;
      child.kill('SIGSTOP');
      await delay(ms);
      child.kill('SIGCONT');
    },
    async stop() {
      stopped = true;
      for (const child of children.values()) child.kill('SIGTERM');
      const over = setTimeout(() => {
        for (const child of children.values()) child.kill('SIGKILL');
      }, FINISHING_MS);
      await Promise.all(lives);
      clearTimeout(over);
    },
    broken,
  };
}
