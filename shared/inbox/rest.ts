/** Held events of one aggregate in one transaction, and after how many a drain rests. */
export const RUN = 25;
/** Held events a second of one connection; whoever is faster rests longer, twice as long as the work at most. */
const FAST = 600;
/** Longest rest, for what took long waits for a lock or another system rather than keeping the database busy. Milliseconds. */
const MOST_MS = 500;

/** What has been done of an aggregate since the last rest. */
export interface Stint {
  readonly events: number;
  /** Milliseconds. */
  readonly tookMs: number;
}

export const RESTED: Stint = { events: 0, tookMs: 0 };

/**
 * How long a drain rests before it goes on with an aggregate: whoever drains much leaves the database, and a connection of its process, to others
 * for as long as it took them. Where that is faster than anybody asks of it, others get two thirds of the time: in three pairs of full benchmarks
 * their batches took 6.9, 10.2 and 7.4 ms beside it instead of 9.9, 12.0 and 10.0, the drain 15, 10 and 13 % longer (docs/benchmarks.md).
 *
 * @returns milliseconds; 0 before `RUN` events, so that a small gap closes at once
 */
export function restMs({ events, tookMs }: Stint): number {
  if (events < RUN) return 0;
  const untilFast = (1000 * events) / FAST - tookMs;
  return Math.min(Math.max(tookMs, Math.min(untilFast, 2 * tookMs)), MOST_MS);
}
