import { entriesAfter } from '../erasure/entries.ts';
import { type ErasureLog, logUnreadable } from '../erasure/log.ts';
import { createPseudonyms, pseudonymous } from '../erasure/pseudonyms.ts';
import { SealingError } from '../errors.ts';
import { type NeededKey, personKey } from '../seal-data.ts';
import { type KeyName, keyNameText } from '../sealed-text.ts';
import { ageOf, type KeyringClock, MINUTE, type Moment, momentOf } from './age.ts';
import type { Kms } from './kms.ts';
import type { Vault } from './vault.ts';

/** How old a listing of the log may be. */
const FRESH_MS = 5 * MINUTE;
/** While the log cannot be read, and only then. */
const STALE_MS = 60 * MINUTE;
/** The log was away: how long until it is asked again. */
const PAUSE_MS = 10_000;

/** What the log says that the vault has not done. Mostly nothing. */
export interface Listing {
  isErased(name: KeyName): boolean;
}

interface Listed extends Listing {
  readonly askedAt: Moment;
  /** It knows of all entries after this one. */
  readonly from: number;
  /** `class hmac` of persons. */
  readonly persons: ReadonlySet<string>;
}

/** The log of erasures, as a reader of keys uses it: the vault says how far it has done it, the log what comes after. */
export interface ErasedKeys {
  /** Keys that are erased although the vault may not say so. @throws SealingError `SEALING_UNAVAILABLE` */
  beyond(through: number): Promise<Listing>;
  /** The same from where `beyond` was last asked; null before. */
  current(): Promise<Listing | null>;
  /**
   * Those of these persons who are erased although the vault has no key of theirs, or a later one: an older backup does not know them.
   *
   * @returns their `personKey`s
   */
  among(persons: readonly NeededKey[], lacking: readonly NeededKey[], through: number): Promise<ReadonlySet<string>>;
}

export interface ErasedKeysOptions {
  readonly name: string;
  readonly log: ErasureLog;
  readonly vault: Vault;
  readonly kms: Kms;
  readonly clock: KeyringClock;
}

export function createErasedKeys({ name, log, vault, kms, clock }: ErasedKeysOptions): ErasedKeys {
  const pseudonyms = createPseudonyms(name, log, kms);
  const flights = new Map<number, Promise<Listed>>();
  let listed: Listed | null = null;
  /** Where the vault was when it was last asked; a lower number says that it was restored. */
  let reached = 0;
  let asked: number | null = null;
  let awayAt: Moment | null = null;

  const list = async (from: number): Promise<Listed> => {
    const askedAt = momentOf(clock);
    const names = new Set<string>();
    const persons = new Set<string>();
    for await (const { subjectHmac, erased, restricted } of entriesAfter(log, from)) {
      for (const key of [...erased, ...restricted]) {
        names.add(keyNameText(key));
        persons.add(`${key.class} ${subjectHmac.toString('base64url')}`);
      }
    }
    listed = { askedAt, from, persons, isErased: (key) => names.has(keyNameText(key)) };
    reached = from;
    awayAt = null;
    return listed;
  };

  const relist = (from: number): Promise<Listed> => {
    const flight = flights.get(from) ?? list(from).finally(() => flights.delete(from));
    flights.set(from, flight);
    return flight;
  };

  const beyond = async (through: number): Promise<Listed> => {
    asked = through;
    const usable = listed !== null && through >= reached && through >= listed.from ? listed : null;
    if (usable !== null) {
      reached = through;
      const age = ageOf(clock, usable.askedAt);
      const isPaused = awayAt !== null && ageOf(clock, awayAt) < PAUSE_MS;
      if (age < FRESH_MS || (age < STALE_MS && isPaused)) return usable;
    }
    try {
      return await relist(through);
    } catch (error) {
      awayAt = momentOf(clock);
      if (usable !== null && ageOf(clock, usable.askedAt) < STALE_MS) return usable;
      throw logUnreadable(error);
    }
  };

  return {
    beyond,
    current: async () => (asked === null ? null : beyond(asked)),

    async among(persons, lacking, through) {
      const { persons: inLog } = await beyond(through);
      const suspects = inLog.size > 0 ? persons : lacking;
      const erased = new Set<string>();
      if (suspects.length === 0 || (inLog.size === 0 && through === 0)) return erased;
      const others = new Map<string, { readonly asked: NeededKey; readonly pseudonym: NeededKey }>();
      for (const person of suspects) {
        const hmac = await pseudonyms.known(person.subject).catch((error: unknown) => {
          throw error instanceof SealingError ? error : logUnreadable(error);
        });
        if (hmac === null) return erased;
        const pseudonym = { class: person.class, subject: pseudonymous(hmac) };
        if (inLog.has(`${person.class} ${pseudonym.subject.id}`)) erased.add(personKey(person));
        else others.set(personKey(pseudonym), { asked: person, pseudonym });
      }
      if (through === 0 || others.size === 0) return erased;
      // What was done here for persons whom the restored backup did not know.
      const { subjects } = await vault.read(
        [...others.values()].map(({ pseudonym }) => pseudonym),
        [],
      );
      for (const row of subjects) {
        const found = others.get(personKey(row));
        if (found !== undefined) erased.add(personKey(found.asked));
      }
      return erased;
    },
  };
}
