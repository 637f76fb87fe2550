import type { KeyObject } from 'node:crypto';
import { KeysNotPreparedError, SealingError } from '../errors.ts';
import { ageOf, type KeyringClock, type Moment, momentOf, systemClock } from '../keyring/age.ts';
import { createKmsCache, secretKey } from '../keyring/kms-cache.ts';
import type { Kms, KmsContext } from '../keyring/kms.ts';
import { isFresh, isUsable } from '../keyring/subject-cache.ts';
import type { BlindIndex } from './blind-value.ts';
import type { IndexKeyRow, IndexKeyState, IndexVault, IndexVaultAnswer } from './index-vault.ts';
import { blindIndexes, type BlindIndexes } from './blind-indexes.ts';

/** Keys of blind indexes, loaded before they are needed. */
export interface IndexKeys {
  /**
   * Loads all keys of these indexes that live, and makes the first one where there is none: committed before this resolves. What it answers only
   * computes; for about a minute it is sure to work, after five minutes it refuses.
   *
   * @throws SealingError `SEALING_DENIED`, `SEALING_THROTTLED`, `SEALING_UNAVAILABLE`, `SEALING_KEY_DISABLED`, `SEALING_KEY_UNKNOWN`, `SEALING_TAMPERED`,
   * `SEALING_MALFORMED`
   */
  load(indexes: readonly BlindIndex[]): Promise<BlindIndexes>;
}

export interface IndexKeysOptions {
  /** Name of the vault: bound to every key in it, as that of the keyring. */
  readonly name: string;
  readonly vault: IndexVault;
  readonly kms: Kms;
  readonly clock?: KeyringClock;
}

/** A key of an index, unwrapped. */
export interface IndexKey {
  readonly version: number;
  readonly state: IndexKeyState;
  readonly secret: KeyObject;
}

/** How long others wait for a read that is under way: longer than vault and KMS take. One that hangs holds up nobody who comes later. */
const PATIENCE_MS = 5_000;

interface Known {
  readonly rows: readonly IndexKeyRow[];
  readonly askedAt: Moment;
}

/**
 * Makes the index keys of a process. One for all its work: which keys there are is asked again after four minutes, KMS as for branch keys.
 *
 * ```ts
 * const indexKeys = createIndexKeys({ name: 'invoices', vault: postgresIndexVault(pool), kms });
 * ```
 */
export function createIndexKeys({ name: vaultName, vault, kms, clock = systemClock }: IndexKeysOptions): IndexKeys {
  const cache = createKmsCache(kms, clock);
  const known = new Map<string, Known>();
  const reading = new Map<string, { readonly flight: Promise<Known>; readonly startedAt: Moment }>();

  const createFirst = async (index: BlindIndex): Promise<IndexKeyRow> => {
    const askedAt = momentOf(clock);
    const { plaintext, kmsKey, wrapped } = await kms.generate(indexContext(vaultName, index.class, 1));
    const secret = secretKey(plaintext);
    const standing = await vault.createIndexKey({ name: index.name, kmsKey, wrapped });
    const isOurs = standing.version === 1 && Buffer.compare(standing.wrapped, wrapped) === 0;
    if (isOurs) cache.keep(keyId(standing), { secret, wrapped, askedAt });
    return standing;
  };

  const read = async (index: BlindIndex, answer: Promise<IndexVaultAnswer>): Promise<Known> => {
    const askedAt = momentOf(clock);
    const { granted, keys } = await answer;
    checkGrant(index, granted);
    const rows = keys.filter((row) => row.name === index.name);
    const found = { rows: rows.length > 0 ? rows : [await createFirst(index)], askedAt };
    known.set(indexId(index), found);
    return found;
  };

  /**
   * Which keys live, of each index. However many ask at once, an index is read once: or one would find the first key while another is still
   * making it, and ask KMS for it again.
   */
  const knownOf = (indexes: readonly BlindIndex[]): Promise<Known[]> => {
    const isKnown = (index: BlindIndex): boolean => {
      const entry = known.get(indexId(index));
      return entry !== undefined && isFresh(clock, entry.askedAt);
    };
    const isUnderWay = (index: BlindIndex): boolean => {
      const entry = reading.get(indexId(index));
      return entry !== undefined && ageOf(clock, entry.startedAt) < PATIENCE_MS;
    };
    const asked = new Map(indexes.map((index) => [indexId(index), index]));
    const missing = [...asked.values()].filter((index) => !isKnown(index) && !isUnderWay(index));
    if (missing.length > 0) {
      const startedAt = momentOf(clock);
      const answer = vault.readIndexKeys(missing.map(({ name }) => name));
      for (const index of missing) {
        const flight = read(index, answer).finally(() => {
          if (reading.get(indexId(index))?.flight === flight) reading.delete(indexId(index));
        });
        reading.set(indexId(index), { flight, startedAt });
      }
    }
    return Promise.all(
      indexes.map(async (index) => (await reading.get(indexId(index))?.flight) ?? (known.get(indexId(index)) as Known)),
    );
  };

  const open = (index: BlindIndex, rows: readonly IndexKeyRow[]): Promise<IndexKey[]> =>
    Promise.all(
      rows.map(async (row) => ({
        version: row.version,
        state: row.state,
        secret: await cache.open(keyId(row), row, indexContext(vaultName, index.class, row.version)),
      })),
    );

  return {
    async load(indexes) {
      const loaded = new Map<string, { readonly keys: readonly IndexKey[]; readonly askedAt: Moment }>();
      for (const [n, { rows, askedAt }] of (await knownOf(indexes)).entries()) {
        const index = indexes[n] as BlindIndex;
        loaded.set(indexId(index), { keys: await open(index, rows), askedAt });
      }
      return blindIndexes((index) => {
        const found = loaded.get(indexId(index));
        if (found !== undefined && isUsable(clock, found.askedAt)) return found.keys;
        throw new KeysNotPreparedError(
          `The keys of index '${index.name}' were not loaded, or over five minutes ago. Load them before the transaction. Nothing was computed.`,
        );
      });
    },
  };
}

/** What the key of an index is bound to in KMS. Which index it is, is bound by what is derived from it. */
export function indexContext(vault: string, className: string, version: number): KmsContext {
  return { vault, class: className, version: String(version), purpose: 'index' };
}

function checkGrant(index: BlindIndex, granted: readonly Pick<BlindIndex, 'name' | 'class'>[]): void {
  const grant = granted.find(({ name }) => name === index.name);
  if (grant === undefined) {
    throw new SealingError('SEALING_DENIED', `This login may not use the index '${index.name}'.`);
  }
  if (grant.class !== index.class) {
    throw new SealingError(
      'SEALING_DENIED',
      `The index '${index.name}' is over class '${grant.class}' in the vault, and over '${index.class}' in this program.`,
    );
  }
}

function indexId({ name, class: className }: Pick<BlindIndex, 'name' | 'class'>): string {
  return `${name} ${className}`;
}

function keyId({ name, version }: Pick<IndexKeyRow, 'name' | 'version'>): string {
  return `${name} ${version}`;
}
