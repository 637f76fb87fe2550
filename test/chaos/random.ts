/** Uniform in [0, 1). */
export type Random = () => number;

/**
 * A generator that gives the same numbers for the same seed and name. Each part of a run draws from its own, so what one part
 * does never moves another. (mulberry32, seeded by FNV-1a over the name)
 */
export function seeded(seed: number, name: string): Random {
  let state = 0x811c9dc5 ^ seed;
  for (const character of name) state = Math.imul(state ^ character.charCodeAt(0), 0x01000193);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Uniform between two numbers. */
export function between(random: Random, least: number, most: number): number {
  return least + random() * (most - least);
}

export function pick<T>(random: Random, from: readonly T[]): T {
  const chosen = from[Math.floor(random() * from.length)];
  if (chosen === undefined) throw new Error('nothing to pick from');
  return chosen;
}

/**
 * Deals kinds from a shuffled deck and shuffles again when it is empty: the order is random, and none is ever left out for long, so
 * a short run meets every kind too.
 */
export function deck<T>(random: Random, kinds: readonly T[]): () => T {
  let left: T[] = [];
  return () => {
    if (left.length === 0) left = [...kinds];
    const [dealt] = left.splice(Math.floor(random() * left.length), 1);
    if (dealt === undefined) throw new Error('the deck is empty');
    return dealt;
  };
}

/** In a random order. */
export function shuffled<T>(random: Random, items: readonly T[]): T[] {
  const deal = deck(random, items);
  return items.map(() => deal());
}
