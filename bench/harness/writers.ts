import { setTimeout as delay } from 'node:timers/promises';
import { AGGREGATES, BYTES } from './messages.ts';
import { startChild } from './process.ts';
import type { Arrival, BenchQueue } from './queue.ts';
import type { BenchDatabase, Connection } from './server.ts';

export interface WritersStart {
  readonly connection: Connection;
  /** Events a second. */
  readonly rate: number;
  readonly seconds: number;
  readonly aggregates: number;
  readonly bytes: number;
  /** This share of the transactions stays open for `lateMs` after its append. */
  readonly lateShare: number;
  readonly lateMs: number;
  /** Every so many events go to one aggregate, `thing-hot`. */
  readonly hotEvery?: number;
}

/** The event's id, when the writer knew that it was committed (milliseconds since 1970), and how long that took from when it was due (milliseconds). */
export type Written = readonly [id: string, committedAt: number, took: number];

type Load = Pick<WritersStart, 'rate' | 'seconds'> & Partial<WritersStart>;

/** Writers in a process of their own. */
export interface RunningWriters {
  /** Ends with their time, or with `end`. */
  readonly written: Promise<Written[]>;
  end(): Promise<Written[]>;
}

/** Starts writers. What they wrote in the first moments counts as the rest: they are warm before their time begins. */
export function startWriters(database: BenchDatabase, load: Load): RunningWriters {
  const child = startChild('writers-process.ts');
  let isOver = false;
  const run = async (): Promise<Written[]> => {
    try {
      return await child.ask<Written[]>('run', {
        connection: database.connection('sealed_writer'),
        aggregates: AGGREGATES,
        bytes: BYTES,
        lateShare: 0,
        lateMs: 50,
        ...load,
      } satisfies WritersStart);
    } finally {
      isOver = true;
      await child.stop();
    }
  };
  const written = run();
  // Whoever waits for it learns of a failure; nobody does where something else has failed before.
  written.catch(() => {});
  return {
    written,
    async end() {
      if (!isOver) await child.ask('end');
      return written;
    },
  };
}

/** Runs writers until their time is over. */
export function write(database: BenchDatabase, load: Load): Promise<Written[]> {
  return startWriters(database, load).written;
}

/**
 * Waits until the queue has as many first occurrences.
 *
 * @throws Error when nothing more has come for a minute.
 */
export async function untilAccepted(queue: BenchQueue, events: number): Promise<void> {
  let last = -1;
  let movedAt = performance.now();
  for (;;) {
    const { accepted, repeats } = await queue.counts();
    const first = accepted - repeats;
    if (first >= events) return;
    if (first > last) movedAt = performance.now();
    last = first;
    if (performance.now() - movedAt > 60_000) throw new Error(`only ${first} of ${events} events reached the queue`);
    await delay(50);
  }
}

/** Milliseconds from commit to the queue's receiving the event; `group` limits it to one aggregate. */
export function latencies(written: readonly Written[], arrivals: readonly Arrival[], group?: string): number[] {
  const committed = new Map(written.map(([id, at]) => [id, at]));
  return arrivals.flatMap(([id, of, at]) => {
    const committedAt = committed.get(id);
    return committedAt === undefined || (group !== undefined && of !== group) ? [] : [at - committedAt];
  });
}
