import { systemClock } from '../../shared/outbox/index.ts';
import {
  createIndexKeys,
  createKeyring,
  type IndexRunOptions,
  type Kms,
  postgresIndexVault,
  postgresVault,
  runIndexes,
  type VaultPool,
} from '../../shared/sealing/index.ts';
import type { Queryable } from '../../shared/database/index.ts';
import { noMetrics, silentLog } from '../../shared/telemetry/index.ts';

/** A run of the janitor over blind indexes, as a process that has just started, without rest. */
export function runIndexesOn(
  pool: VaultPool,
  given: Pick<IndexRunOptions, 'name' | 'indexes'> & { readonly kms: Kms } & Partial<IndexRunOptions>,
) {
  const { name, kms } = given;
  return runIndexes({
    pool,
    keyring: createKeyring({ name, vault: postgresVault(pool), kms }),
    indexKeys: createIndexKeys({ name, vault: postgresIndexVault(pool), kms }),
    kmsKey: 'kms-key',
    budgetMs: 60_000,
    rest: 0,
    clock: systemClock,
    log: silentLog,
    metrics: noMetrics,
    ...given,
  });
}

/** A process that is killed when it has sent so many statements: the last one was carried out, and nobody heard of it. */
export function killedAfter(pool: VaultPool, statements: number): VaultPool {
  let sent = 0;
  return {
    totalCount: 1,
    async query(text, values) {
      if (sent >= statements) throw new Error('killed');
      sent += 1;
      const answer = await pool.query(text, values);
      if (sent >= statements) throw new Error('killed');
      return answer;
    },
  };
}

/** Ten minutes go by for the vault. As the owner. */
export async function ageIndexKeys(owner: Queryable, interval = '10 minutes'): Promise<void> {
  await owner.query(
    'update vault.index_key set state_since = state_since - $1::interval, created_at = created_at - $1::interval',
    [interval],
  );
}

/** `version state` of the keys of an index that live. */
export async function indexKeysOf(owner: Queryable, name: string): Promise<string> {
  const { rows } = await owner.query(
    `select string_agg(version || ' ' || state, ', ' order by version) as keys from vault.index_key where name = $1 and state <> 'destroyed'`,
    [name],
  );
  return (rows[0] as { keys: string | null }).keys ?? 'none';
}
