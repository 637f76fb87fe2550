import type { SubjectKey } from '../value.ts';
import { ageOf, type KeyringClock, MINUTE, type Moment } from './age.ts';

/** What the vault says of a person's key, and when. */
export interface KnownKey {
  readonly key: SubjectKey | 'erased';
  /** Before the vault was asked. */
  readonly askedAt: Moment;
}

/** Most keys in memory; the one that was not used for longest goes. */
const MOST = 5_000;
/** Nothing is used that the vault said longer ago, whatever is down: within this time an erased person's data no longer opens. */
const LIMIT_MS = 5 * MINUTE;
/** What is given out must last for the work that it is given out for. */
const FRESH_MS = 4 * MINUTE;

/** Unwrapped keys of persons, by what they are asked for. */
export interface SubjectCache {
  /** What was said less than four minutes ago. */
  get(name: string): KnownKey | undefined;
  set(name: string, known: KnownKey): void;
}

export function createSubjectCache(clock: KeyringClock): SubjectCache {
  // In the order of use.
  const entries = new Map<string, KnownKey>();
  return {
    get(name) {
      const known = entries.get(name);
      if (known === undefined) return undefined;
      entries.delete(name);
      if (!isFresh(clock, known.askedAt)) return undefined;
      entries.set(name, known);
      return known;
    },
    set(name, known) {
      entries.delete(name);
      entries.set(name, known);
      if (entries.size <= MOST) return;
      const [longestUnused] = entries.keys();
      if (longestUnused !== undefined) entries.delete(longestUnused);
    },
  };
}

export function isFresh(clock: KeyringClock, askedAt: Moment): boolean {
  return ageOf(clock, askedAt) < FRESH_MS;
}

/** Whether what has been given out may still be used. */
export function isUsable(clock: KeyringClock, askedAt: Moment): boolean {
  return ageOf(clock, askedAt) < LIMIT_MS;
}
