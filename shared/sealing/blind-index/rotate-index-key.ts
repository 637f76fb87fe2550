import { SealingError } from '../errors.ts';
import { inVault, type VaultPool } from '../keyring/postgres-vault.ts';
import type { Kms } from '../keyring/kms.ts';
import { indexContext } from './index-keys.ts';

/**
 * - `added`: a new key exists, and is searched for as soon as all know of it;
 * - `waiting`: not all processes can know yet what changed last; come again in ten minutes;
 * - `promoted`: the new key is written from now on, the old one still searched for;
 * - `backfill`: a column holds values of an older key: bring it up to date (`backfillIndex`), then come again;
 * - `destroyed`: the older keys are gone;
 * - `done`: one key lives, and all values are of it.
 */
export type IndexRotationStep = 'added' | 'waiting' | 'promoted' | 'backfill' | 'destroyed' | 'done';

export interface IndexRotationOptions {
  /** Name of the vault, as that of the keyring. */
  readonly name: string;
  /** Of a login with the role `vault_index_rotator`. */
  readonly pool: VaultPool;
  readonly kms: Pick<Kms, 'generate'>;
  /** Of the index. */
  readonly index: string;
  /** Begin a rotation where none is under way. */
  readonly begin: boolean;
  /** Whether a column of the index holds values of a key version below this one: `hasOlderValues` of each. */
  readonly hasOlder: (version: number) => Promise<boolean>;
}

interface Standing {
  readonly class: string;
  readonly newest_version: number;
  readonly next_version: number | null;
  readonly active_version: number | null;
  readonly retired_versions: readonly number[];
  readonly settled: boolean;
}

/**
 * Takes the rotation of an index key one step further. Each step is one statement, so it may be interrupted anywhere, called again at any time, and by
 * two at once.
 *
 * @throws SealingError of the vault and of KMS; `SEALING_KEY_UNKNOWN` for an index that has no key yet
 */
export async function rotateIndexKey(options: IndexRotationOptions): Promise<IndexRotationStep> {
  const { name, pool, kms, index, begin, hasOlder } = options;
  const ask = async (sql: string, ...values: unknown[]): Promise<unknown> =>
    (await inVault(pool.query(sql, values))).rows[0];
  const standing = (await ask('select * from vault.index_rotation($1)', index)) as Standing | undefined;
  if (standing === undefined || standing.active_version === null) {
    throw new SealingError('SEALING_KEY_UNKNOWN', `The index '${index}' has no key that could be rotated.`);
  }
  if (standing.next_version !== null) {
    const { promoted } = (await ask(
      'select vault.promote_index_key($1, $2) as promoted',
      index,
      standing.next_version,
    )) as { readonly promoted: boolean };
    return promoted ? 'promoted' : 'waiting';
  }
  if (standing.retired_versions.length > 0) {
    if (await hasOlder(standing.active_version)) return 'backfill';
    // A writer that does not know yet could still write an old value.
    if (!standing.settled) return 'waiting';
    const { destroyed } = (await ask(
      'select vault.destroy_index_keys($1, $2) as destroyed',
      index,
      standing.active_version,
    )) as { readonly destroyed: number };
    return destroyed > 0 ? 'destroyed' : 'waiting';
  }
  if (!begin) return 'done';
  const version = standing.newest_version + 1;
  const { plaintext, kmsKey, wrapped } = await kms.generate(indexContext(name, standing.class, version));
  plaintext.fill(0);
  const { added } = (await ask(
    `select vault.add_index_key($1, $2, $3, decode($4, 'base64')) as added`,
    index,
    version,
    kmsKey,
    Buffer.from(wrapped).toString('base64'),
  )) as { readonly added: boolean };
  return added ? 'added' : 'waiting';
}
