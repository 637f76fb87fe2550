/** How many partitions the aggregates are spread over. Fixed: it is part of the stored data. */
export const PARTITIONS = 64;

/** A relay that was seen within one lease and has not ended. */
export interface LiveRelay {
  readonly owner: string;
  /** The schedule or process that it belongs to. */
  readonly slot: string;
  /** When it started, as text that sorts by time. */
  readonly startedAt: string;
}

/**
 * How many partitions a relay should hold: 64 shared over the youngest relay of each slot. The older ones of a slot
 * get none, which is how a run hands over to the next one.
 */
export function shareOf(owner: string, live: readonly LiveRelay[]): number {
  const youngest = new Map<string, LiveRelay>();
  for (const relay of live) {
    const other = youngest.get(relay.slot);
    if (other === undefined || isYounger(relay, other)) youngest.set(relay.slot, relay);
  }
  const holders = [...youngest.values()].toSorted((a, b) => (a.slot < b.slot ? -1 : 1));
  const rank = holders.findIndex((relay) => relay.owner === owner);
  if (rank === -1) return 0;
  return Math.floor(PARTITIONS / holders.length) + (rank < PARTITIONS % holders.length ? 1 : 0);
}

function isYounger(a: LiveRelay, b: LiveRelay): boolean {
  return a.startedAt === b.startedAt ? a.owner > b.owner : a.startedAt > b.startedAt;
}
