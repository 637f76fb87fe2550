import type { Queryable } from '../../shared/database/index.ts';
import type { FunctionLogin } from './logins.ts';

/** Gives each login exactly the classes and the blind indexes that it declares. One that was given some before and declares them no longer loses them. */
export async function giveVault(client: Queryable, logins: readonly FunctionLogin[]): Promise<void> {
  const { rows } = await client.query(
    `select to_regprocedure('vault.set_index_access(name, jsonb)') is not null as "hasIndexes"`,
  );
  for (const { user, vault } of logins) {
    await client.query('select vault.set_access($1, $2, $3)', [user, vault?.reads ?? [], vault?.creates ?? []]);
    if (rows[0].hasIndexes === true) {
      await client.query('select vault.set_index_access($1, $2)', [user, JSON.stringify(vault?.indexes ?? {})]);
    }
  }
}
