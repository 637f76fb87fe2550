import { SealingError } from '../errors.ts';
import { DURABLE, inVault, type VaultPool } from '../keyring/postgres-vault.ts';
import type { IndexKeyRow, IndexVault, IndexVaultAnswer } from './index-vault.ts';

/** A row as JSON holds it: bytes in base64. */
interface IndexKeyText extends Omit<IndexKeyRow, 'wrapped'> {
  readonly wrapped: string;
}

const KEY = `json_build_object('name', k.name, 'version', k.version, 'state', k.state,
                               'kmsKey', k.kms_key, 'wrapped', encode(k.wrapped, 'base64'))`;

/**
 * Index keys in the tables of migrations/vault. The login needs `vault_reader` or `vault_writer`, and its indexes by `vault.set_index_access`.
 *
 * @param pool as for `postgresVault`: never a client that may be in a transaction
 */
export function postgresIndexVault(pool: VaultPool): IndexVault {
  return {
    async readIndexKeys(names) {
      const { rows } = await inVault(
        pool.query(
          `select coalesce((select json_agg(json_build_object('name', i.name, 'class', i.class))
                              from vault.blind_index i
                             where i.name = any ($1)), '[]') as granted,
                  coalesce((select json_agg(${KEY} order by k.version)
                              from vault.index_key k
                             where k.name = any ($1) and k.wrapped is not null), '[]') as keys`,
          [names],
        ),
      );
      const [answer] = rows as {
        readonly granted: IndexVaultAnswer['granted'];
        readonly keys: readonly IndexKeyText[];
      }[];
      if (answer === undefined) throw new SealingError('SEALING_UNAVAILABLE', 'The vault answered nothing.');
      return { granted: answer.granted, keys: answer.keys.map(keyRow) };
    },

    async createIndexKey({ name, kmsKey, wrapped }) {
      await inVault(
        pool.query(
          `with durable as (${DURABLE})
           insert into vault.index_key (name, version, kms_key, wrapped)
           select $1, 1, $2, decode($3, 'base64') from durable
           on conflict do nothing`,
          [name, kmsKey, Buffer.from(wrapped).toString('base64')],
        ),
      );
      const { rows } = await inVault(
        pool.query(`select ${KEY} as key from vault.index_key k where k.name = $1 and k.state = 'active'`, [name]),
      );
      const [standing] = rows as { readonly key: IndexKeyText }[];
      if (standing === undefined) {
        throw new SealingError('SEALING_KEY_UNKNOWN', `The index '${name}' has no key that is active.`);
      }
      return keyRow(standing.key);
    },
  };
}

function keyRow(row: IndexKeyText): IndexKeyRow {
  return { ...row, wrapped: Buffer.from(row.wrapped, 'base64') };
}
