import type { RelayReport } from '../../shared/outbox/index.ts';
import type { Bench } from './benchmark.ts';
import { type Child, startChild } from './process.ts';
import type { QueueAddress } from './queue.ts';
import type { BenchDatabase, Connection } from './server.ts';

/** Calls in flight, of the relay and of all that it is compared with. */
export const CALLS_IN_FLIGHT = 32;

export interface RelayStart {
  readonly connection: Connection;
  readonly queue: QueueAddress;
  readonly slot: string;
  readonly mode: 'drain' | 'continuous';
  readonly concurrency: number;
}

export interface RelayResult {
  readonly report: RelayReport;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
  /** From the start of `runRelay` to its end, leases and the last settle included. */
  readonly seconds: number;
  readonly cpuSeconds: number;
  /** SQL statements sent. */
  readonly statements: number;
  /** Client time of each fetch that found something, since `fetchTimes` was last asked. Milliseconds. */
  readonly fetchMs: readonly number[];
  readonly peakRssMb: number;
}

export interface RunningRelay {
  readonly process: Child;
  /** Resolves when it has ended, by itself or by `stop`. */
  readonly result: Promise<RelayResult>;
  fetchTimes(): Promise<number[]>;
  /** As SIGTERM: finishes what is in flight. */
  stop(): Promise<RelayResult>;
}

/** Starts a relay in a process of its own; `nodeOptions` are for that process. */
export function startRelay(
  bench: Bench,
  database: BenchDatabase,
  queue: QueueAddress,
  mode: RelayStart['mode'] = 'drain',
  slot = 'bench',
  nodeOptions: readonly string[] = [],
): RunningRelay {
  const { profileDirectory } = bench;
  const profile = profileDirectory === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDirectory}`];
  const child = startChild('relay-process.ts', [...nodeOptions, ...profile]);
  const { endpoint, queueUrl } = queue;
  const result = child.ask<RelayResult>('run', {
    connection: database.connection('sealed_relay'),
    queue: { endpoint, queueUrl },
    slot,
    mode,
    concurrency: CALLS_IN_FLIGHT,
  } satisfies RelayStart);
  const ended = (async () => {
    try {
      return await result;
    } finally {
      await child.stop();
    }
  })();
  // Whoever started it awaits it in the end; until then an early failure is nobody's unhandled rejection.
  ended.catch(() => {});
  return {
    process: child,
    result: ended,
    fetchTimes: () => child.ask('fetchTimes'),
    async stop() {
      await child.ask('stop').catch(() => {});
      return ended;
    },
  };
}

/** Drains the database with one relay. */
export function drain(bench: Bench, database: BenchDatabase, queue: QueueAddress): Promise<RelayResult> {
  return startRelay(bench, database, queue).result;
}
