import type { BatchEntry } from './fault-proxy.ts';

/** What the queues took, in their own order: the truth about promises 1 and 2. */
export interface Acceptance {
  /** Destination → event → the place of its first occurrence. */
  readonly first: ReadonlyMap<string, ReadonlyMap<string, number>>;
  /** Entries that a queue took again, whether its window swallowed them or not. */
  readonly repeats: number;
  /** First occurrences. */
  readonly events: number;
  /** How many first occurrences came after a higher one of their aggregate, as far as seen by now. The verdict counts again, by place. */
  readonly suspicions: number;
  record(destination: string, entry: BatchEntry, place: number): void;
  has(destination: string, entry: BatchEntry): boolean;
}

/** @param ordered the destinations that keep order: of the others nothing is out of it */
export function acceptance(destinations: readonly string[], ordered: ReadonlySet<string>): Acceptance {
  const first = new Map(destinations.map((name) => [name, new Map<string, number>()]));
  const highest = new Map<string, number>();
  let repeats = 0;
  let events = 0;
  let suspicions = 0;
  const of = (destination: string): Map<string, number> => {
    const places = first.get(destination);
    if (places === undefined) throw new Error(`no destination is called ${destination}`);
    return places;
  };
  return {
    first,
    get repeats() {
      return repeats;
    },
    get events() {
      return events;
    },
    get suspicions() {
      return suspicions;
    },
    record(destination, entry, place) {
      const places = of(destination);
      const { id, subject, sequence } = placeOf(entry);
      const known = places.get(id);
      if (known !== undefined) {
        repeats += 1;
        if (place < known) places.set(id, place);
        return;
      }
      places.set(id, place);
      events += 1;
      if (!ordered.has(destination)) return;
      const chain = `${destination}/${subject}`;
      const last = highest.get(chain) ?? 0;
      if (sequence < last) suspicions += 1;
      else highest.set(chain, sequence);
    },
    has: (destination, entry) => of(destination).has(placeOf(entry).id),
  };
}

interface Place {
  readonly id: string;
  readonly subject: string;
  readonly sequence: number;
}

const read = new WeakMap<BatchEntry, Place>();

function placeOf(entry: BatchEntry): Place {
  const known = read.get(entry);
  if (known !== undefined) return known;
  const { id, subject, sequence } = JSON.parse(entry.MessageBody) as { id: string; subject: string; sequence: string };
  const place = { id, subject, sequence: Number(sequence) };
  read.set(entry, place);
  return place;
}
