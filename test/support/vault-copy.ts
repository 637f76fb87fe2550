import type { Queryable } from '../../shared/database/index.ts';

/** In an order that foreign keys allow. */
const TABLES = ['branch_key', 'subject_key', 'erasure', 'erasure_position', 'erasure_request', 'restricted_key'];

/** The rows of the vault, as a backup has them. */
export async function copyVault(owner: Queryable): Promise<ReadonlyMap<string, string>> {
  const copy = new Map<string, string>();
  for (const table of TABLES) {
    const { rows } = await owner.query(`select coalesce(json_agg(t), '[]')::text as rows from vault.${table} t`);
    copy.set(table, rows[0].rows);
  }
  return copy;
}

/** Brings the vault back to where it was. */
export async function restoreVault(owner: Queryable, copy: ReadonlyMap<string, string>): Promise<void> {
  await owner.query(`truncate ${TABLES.map((table) => `vault.${table}`).join(', ')}`);
  for (const table of TABLES) {
    await owner.query(`insert into vault.${table} select * from json_populate_recordset(null::vault.${table}, $1)`, [
      copy.get(table),
    ]);
  }
}
