import type { Delivery } from './delivery.ts';

/**
 * The deliveries of one destination that wait in memory, by aggregate. The rule that order rests on lives here: a delivery is
 * offered only when every lower one of its aggregate has been acknowledged. One of an aggregate is in flight at most.
 */
export interface Chains {
  /** Deliveries in sequence order; the first is the head. */
  readonly waiting: Map<string, Delivery[]>;
  /** Aggregates whose head is in flight. */
  readonly inFlight: Set<string>;
  /** Aggregates whose head may go, in the order in which they came. */
  readonly ready: Set<string>;
}

/**
 * Sorts what a fetch returned into chains. An unordered destination has none: there each delivery is a chain of its own.
 */
export function chainsOf(deliveries: readonly Delivery[], ordered: boolean): Chains {
  const waiting = new Map<string, Delivery[]>();
  for (const delivery of deliveries) {
    const key = ordered ? delivery.aggregateKey : delivery.position;
    const chain = waiting.get(key);
    if (chain === undefined) waiting.set(key, [delivery]);
    else chain.push(delivery);
  }
  // The statement orders its rows, but order must not rest on that alone.
  for (const chain of waiting.values()) chain.sort((a, b) => (a.sequence < b.sequence ? -1 : 1));
  return { waiting, inFlight: new Set(), ready: new Set(waiting.keys()) };
}

export function isEmpty(chains: Chains): boolean {
  return chains.ready.size === 0 && chains.inFlight.size === 0;
}

/** The heads that may be sent now, oldest aggregates first. */
export function* heads(chains: Chains): Generator<[key: string, head: Delivery]> {
  for (const key of chains.ready) {
    const head = chains.waiting.get(key)?.[0];
    if (head !== undefined) yield [key, head];
  }
}

/** Marks heads as sent and not yet answered. */
export function depart(chains: Chains, keys: Iterable<string>): void {
  for (const key of keys) {
    chains.ready.delete(key);
    chains.inFlight.add(key);
  }
}

/** The head was acknowledged: the next of its aggregate may go. */
export function advance(chains: Chains, key: string): void {
  chains.inFlight.delete(key);
  const chain = chains.waiting.get(key);
  chain?.shift();
  if (chain === undefined || chain.length === 0) chains.waiting.delete(key);
  else chains.ready.add(key);
}

/** The head was not acknowledged: its followers wait with it, and all are fetched again when it is due. */
export function abandon(chains: Chains, key: string): void {
  chains.inFlight.delete(key);
  chains.ready.delete(key);
  chains.waiting.delete(key);
}
