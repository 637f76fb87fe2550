/** Held events of one aggregate in one transaction, and after how many a drain rests. */
export const RUN = 25;
/** A rest, as a multiple of the work before it. */
const SHARE = 1;
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
 * for as long as it took them.
 *
 * @returns milliseconds; 0 before `RUN` events, so that a small gap closes at once
 */
export function restMs({ events, tookMs }: Stint): number {
  return events < RUN ? 0 : Math.min(SHARE * tookMs, MOST_MS);
}
