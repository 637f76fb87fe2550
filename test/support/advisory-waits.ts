import type pg from 'pg';
import { expect } from 'vitest';

/** Until somebody waits for an advisory lock, such as that of a consumer. Of this database: others of the server have their own. */
export async function untilOneWaits(pool: pg.Pool): Promise<void> {
  await expect
    .poll(async () => {
      const { rowCount } = await pool.query(
        `select from pg_locks l join pg_database d on d.oid = l.database
          where d.datname = current_database() and l.locktype = 'advisory' and not l.granted`,
      );
      return rowCount;
    })
    .toBe(1);
}
