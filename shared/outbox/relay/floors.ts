/**
 * How far the aggregates are that a relay meets again and again. What is published stays in the index of unfinished deliveries for as long
 * as anybody holds an old snapshot, and the look-up of an aggregate would walk over all of it each time.
 *
 * A floor is the lowest sequence that a look found unfinished: below it, all is out, and stays so, whoever holds the lease
 * meanwhile. It must come from a look and not from an acknowledgement, whose settlement may fail.
 */
export interface Floors {
  /** Where an aggregate was when this relay met it first; those met last at the end. */
  readonly first: Map<string, bigint>;
  /** Those that have gone far enough to be worth a mention in the next look. */
  readonly far: Map<string, bigint>;
}

/** Aggregates that are remembered, and named in one look, at most: a look with 64 of them carries 4 KB more. */
const KNOWN = 5_000;
const NAMED = 64;
/** A look-up reads a page of the index, some hundred entries, in any case. */
const WORTH = 100n;

export function noFloors(): Floors {
  return { first: new Map(), far: new Map() };
}

/** Remembers that a look has found nothing unfinished of the aggregate below `sequence`. */
export function raiseFloor(floors: Floors, key: string, sequence: bigint): void {
  const first = floors.first.get(key) ?? sequence;
  putLast(floors.first, key, first, KNOWN);
  if (sequence - first >= WORTH) putLast(floors.far, key, sequence, NAMED);
}

/** Puts an entry at the end, and lets the first go where there are more than `most`. */
function putLast(map: Map<string, bigint>, key: string, value: bigint, most: number): void {
  map.delete(key);
  map.set(key, value);
  for (const oldest of map.keys()) {
    if (map.size <= most) break;
    map.delete(oldest);
  }
}
