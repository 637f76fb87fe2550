import { type KeyObject, randomBytes } from 'node:crypto';
import type { Random } from '../cipher.ts';
import { KeysNotPreparedError, SealingError } from '../errors.ts';
import type { OpeningKeys } from '../open-data.ts';
import { type NeededKey, personKey, type SealingKeys } from '../seal-data.ts';
import type { KeyName } from '../sealed-text.ts';
import { subjectKey } from '../value.ts';
import { unwrapSubjectKey, wrapSubjectKey } from '../wrapped-key.ts';
import { type KeyringClock, type Moment, momentOf, systemClock } from './age.ts';
import type { ErasureLog } from '../erasure/log.ts';
import { type BranchKeys, createBranchKeys } from './branch-keys.ts';
import { createErasedKeys, type Listing } from './erased-keys.ts';
import { gatheredReads, type TimedAnswer } from './gathered-reads.ts';
import type { Kms } from './kms.ts';
import { createSubjectCache, isFresh, isUsable, type KnownKey } from './subject-cache.ts';
import type { BranchRow, SubjectRow, Vault, VaultAnswer } from './vault.ts';

/**
 * Keys of persons, loaded before they are needed: KMS key → branch key → person's key. What it answers only computes.
 */
export interface Keyring {
  /**
   * Loads the newest key of each person and class, and creates those that are missing: committed before this resolves. For about a minute
   * what it answers is sure to work, after five minutes it answers undefined to all.
   *
   * @throws SealingError `SEALING_DENIED`, `SEALING_THROTTLED`, `SEALING_UNAVAILABLE`, `SEALING_KEY_DISABLED`, `SEALING_KEY_UNKNOWN`, `SEALING_TAMPERED`,
   * `SEALING_MALFORMED`
   */
  keysToSeal(needed: readonly NeededKey[]): Promise<SealingKeys>;
  /**
   * Loads keys by their names. Never rejects with a SealingError: what it answers throws the one that concerns the key that it is asked for, so
   * that one class that cannot be loaded does not keep others closed; for one that was not loaded a KeysNotPreparedError.
   */
  keysToOpen(names: readonly KeyName[]): Promise<OpeningKeys>;
}

export interface KeyringOptions {
  /** Name of the vault, `[a-z][a-z0-9-]{0,62}`: bound to every key in it. It never changes. */
  readonly name: string;
  readonly vault: Vault;
  readonly kms: Kms;
  /**
   * The log of erasures. With it a restored backup of the vault opens nobody who was erased since: it is looked into at the start, every five minutes, and
   * when the vault falls behind it. While it cannot be read, what was known goes on for an hour, and who starts answers `SEALING_UNAVAILABLE`.
   */
  readonly erasures?: ErasureLog;
  readonly clock?: KeyringClock;
  readonly random?: Random;
}

const NAME = /^[a-z][a-z0-9-]{0,62}$/;

/** What is known of a key that was asked for; nothing where there is no such key. */
type Loaded = KnownKey | SealingError | 'denied';

/**
 * Makes the keyring of a process. One for all its work: it keeps what it has loaded.
 *
 * ```ts
 * const keyring = createKeyring({ name: 'invoices', vault: postgresVault(pool), kms });
 * ```
 */
export function createKeyring(options: KeyringOptions): Keyring {
  const { name, vault, kms, erasures, clock = systemClock, random = randomBytes } = options;
  if (!NAME.test(name)) throw new TypeError('The name of a vault must be 1-63 of a-z 0-9 - and start with a letter.');
  const reads = gatheredReads(vault, clock);
  const branches = createBranchKeys(name, kms, vault, clock);
  const cache = createSubjectCache(clock);
  const erased = erasures === undefined ? null : createErasedKeys({ name, log: erasures, vault, kms, clock });
  let access: { readonly classes: ReadonlySet<string>; readonly askedAt: Moment } | null = null;

  /** What the vault has said, with what the log of erasures says beyond it. */
  const withErasures = async (answer: TimedAnswer): Promise<TimedAnswer & { listing: Listing | undefined }> => {
    access = { classes: new Set(answer.classes), askedAt: answer.askedAt };
    const listing = await erased?.beyond(answer.erasedThrough ?? 0);
    const subjects = answer.subjects
      // Who erases, too, sees keys of all classes, and opens those of its own.
      .filter((row) => answer.classes.includes(row.class))
      .map((row) => (listing?.isErased(row) === true ? { ...row, wrapped: null } : row));
    return { ...answer, subjects, listing };
  };

  /** What the vault says of persons' keys, unwrapped. */
  const unwrapAll = async (answer: TimedAnswer): Promise<Map<SubjectRow, KnownKey | SealingError>> => {
    const { askedAt } = answer;
    const known = new Map<SubjectRow, KnownKey | SealingError>();
    const opened = await openBranches(branches, answer);
    for (const row of answer.subjects) {
      if (row.wrapped === null) known.set(row, { key: 'erased', askedAt });
      else known.set(row, unwrapRow(name, row, row.wrapped, opened.get(branchOf(row)), askedAt));
    }
    return known;
  };

  const create = async (persons: readonly NeededKey[], answer: VaultAnswer): Promise<Map<string, KnownKey>> => {
    const active = new Map<string, BranchRow>(
      answer.branches.filter((row) => row.active).map((row) => [row.class, row]),
    );
    const made = new Map<SubjectRow, KnownKey>();
    const askedAt = momentOf(clock);
    for (const { class: className, subject } of persons) {
      const branch = active.get(className) ?? (await branches.createFirst(className));
      active.set(className, branch);
      const secret = await branches.open(branch);
      const keyName = { class: className, keyId: Buffer.from(random(16)).toString('base64url'), version: 1 };
      const key = subjectKey(keyName, random(32));
      const context = { vault: name, branchVersion: branch.version, subject };
      const wrapped = wrapSubjectKey(secret, key, context, random);
      made.set({ ...keyName, subject, branchVersion: branch.version, wrapped }, { key, askedAt });
    }
    const added = new Set(await vault.createSubjects([...made.keys()]));
    const ours = [...made].filter(([row]) => added.has(row.keyId));
    return new Map(ours.map(([row, known]) => [personKey(row), known]));
  };

  /** The keys of persons, from the vault. */
  const loadPersons = async (persons: readonly NeededKey[], mayCreate = true): Promise<Map<string, KnownKey>> => {
    const answer = await withErasures(await reads.ofPersons(persons));
    const { askedAt } = answer;
    for (const person of persons) if (!answer.classes.includes(person.class)) throw denied(person.class);
    const loaded = new Map<string, KnownKey>();
    for (const [row, known] of await unwrapAll(answer)) {
      if (known instanceof SealingError) throw known;
      loaded.set(personKey(row), known);
    }
    const unknown = persons.filter((person) => !loaded.has(personKey(person)));
    const forgotten = await erased?.among(persons, unknown, answer.erasedThrough ?? 0);
    for (const person of forgotten ?? []) loaded.set(person, { key: 'erased', askedAt });
    const lacking = unknown.filter((person) => !loaded.has(personKey(person)));
    if (lacking.length === 0) return loaded;
    if (!mayCreate) throw new SealingError('SEALING_KEY_UNKNOWN', 'A key that was just created is not in the vault.');
    const created = await create(lacking, answer);
    const others = lacking.filter((person) => !created.has(personKey(person)));
    // Another process was faster: its keys are the ones.
    const theirs = others.length === 0 ? [] : await loadPersons(others, false);
    return new Map([...loaded, ...created, ...theirs]);
  };

  return {
    async keysToSeal(needed) {
      const persons = [...new Map(needed.map((person) => [personKey(person), person])).values()];
      const known = new Map<string, KnownKey>();
      const listing = await erased?.current();
      for (const person of persons) {
        const cached = cache.get(`person ${personKey(person)}`);
        if (cached !== undefined) known.set(personKey(person), unlessErased(cached, listing));
      }
      const missing = persons.filter((person) => !known.has(personKey(person)));
      const loaded = missing.length === 0 ? [] : await loadPersons(missing);
      for (const [person, key] of loaded) {
        cache.set(`person ${person}`, key);
        known.set(person, key);
      }
      return (className, subject) => {
        const found = known.get(personKey({ class: className, subject }));
        return found !== undefined && isUsable(clock, found.askedAt) ? found.key : undefined;
      };
    },

    async keysToOpen(names) {
      const loaded = new Map<string, Loaded>();
      const missing = new Map<string, KeyName>();
      const asked = new Map(names.map((keyName) => [idOf(keyName), keyName]));
      const listing = await orError(erased?.current());
      for (const [id, keyName] of asked) {
        const cached = cache.get(`key ${id}`);
        const isDenied = access !== null && isFresh(clock, access.askedAt) && !access.classes.has(keyName.class);
        if (listing instanceof SealingError) loaded.set(id, listing);
        else if (cached !== undefined) loaded.set(id, unlessErased(cached, listing));
        else if (isDenied) loaded.set(id, 'denied');
        else missing.set(id, keyName);
      }
      if (missing.size > 0) {
        try {
          const answer = await withErasures(await reads.byName([...missing.values()]));
          const { askedAt, listing: log } = answer;
          for (const [id, keyName] of missing) {
            if (!answer.classes.includes(keyName.class)) loaded.set(id, 'denied');
            else if (log?.isErased(keyName) === true) loaded.set(id, { key: 'erased', askedAt });
          }
          for (const [row, known] of await unwrapAll(answer)) {
            loaded.set(idOf(row), known);
            if (!(known instanceof SealingError)) cache.set(`key ${idOf(row)}`, known);
          }
        } catch (error) {
          if (!(error instanceof SealingError)) throw error;
          for (const id of missing.keys()) loaded.set(id, error);
        }
      }
      return (keyName) => {
        const id = idOf(keyName);
        if (!asked.has(id)) throw new KeysNotPreparedError('A key was asked for that was not loaded: load it first.');
        const known = loaded.get(id);
        if (known === undefined || known === 'denied') return known;
        if (known instanceof SealingError) throw known;
        if (isUsable(clock, known.askedAt)) return known.key;
        throw new SealingError('SEALING_UNAVAILABLE', 'The keys were loaded over five minutes ago: load them again.');
      };
    },
  };
}

/** What was loaded before the log was last looked into. */
function unlessErased(known: KnownKey, listing: Listing | null | undefined): KnownKey {
  if (known.key === 'erased' || listing === null || listing === undefined) return known;
  return listing.isErased(known.key) ? { ...known, key: 'erased' } : known;
}

async function orError<T>(work: Promise<T> | undefined): Promise<T | SealingError | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof SealingError) return error;
    throw error;
  }
}

/** The branch keys that the persons' keys of an answer are wrapped with; an error where one cannot be opened. */
async function openBranches(branches: BranchKeys, answer: VaultAnswer): Promise<Map<string, KeyObject | SealingError>> {
  const wanted = new Set(answer.subjects.filter((row) => row.wrapped !== null).map(branchOf));
  const rows = answer.branches.filter((row) => wanted.has(`${row.class} ${row.version}`));
  const opened = await Promise.all(
    rows.map(async (row): Promise<[string, KeyObject | SealingError]> => {
      try {
        return [`${row.class} ${row.version}`, await branches.open(row)];
      } catch (error) {
        if (error instanceof SealingError) return [`${row.class} ${row.version}`, error];
        throw error;
      }
    }),
  );
  return new Map(opened);
}

function unwrapRow(
  vault: string,
  row: SubjectRow,
  wrapped: Uint8Array,
  branch: KeyObject | SealingError | undefined,
  askedAt: Moment,
): KnownKey | SealingError {
  if (branch === undefined) {
    return new SealingError('SEALING_KEY_UNKNOWN', `The vault has no branch key ${branchOf(row)}.`);
  }
  if (branch instanceof SealingError) return branch;
  try {
    const context = { vault, branchVersion: row.branchVersion, subject: row.subject };
    return { key: unwrapSubjectKey(branch, wrapped, row, context), askedAt };
  } catch (error) {
    if (error instanceof SealingError) return error;
    throw error;
  }
}

function branchOf(row: SubjectRow): string {
  return `${row.class} ${row.branchVersion}`;
}

function idOf({ class: className, keyId, version }: KeyName): string {
  return `${className} ${keyId} ${version}`;
}

function denied(className: string): SealingError {
  return new SealingError('SEALING_DENIED', `This login may not use keys of class '${className}'.`);
}
