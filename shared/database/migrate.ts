import { type Migration, MigrationError, title } from './migration-files.ts';
import type { Queryable } from './queryable.ts';

export interface MigrationReport {
  /** `area/0001_name`, in the order in which they were applied now. */
  readonly applied: readonly string[];
  /** How many were there before. */
  readonly present: number;
  /** In the database but not among these files: a newer version has been here. They are left alone. */
  readonly newer: readonly string[];
}

/**
 * A statement that cannot run in a transaction, such as `create index concurrently`, stands alone in a file with this first line.
 * Alone, because PostgreSQL runs several statements that come together as one transaction.
 */
const NO_TRANSACTION = '-- no transaction';

/** All that migrators of this database wait for each other on. The first 8 bytes of SHA-256("sealed outbox"). */
const LOCK = '5845533091629483518';

/** Where it is recorded what was applied. */
const RECORDS = `
create schema if not exists sealed_outbox;
create table if not exists sealed_outbox.migration (
  area       text not null,
  number     integer not null,
  name       text not null,
  checksum   text not null,
  applied_at timestamptz not null default now(),
  primary key (area, number)
)`;

/**
 * Brings the database up to `migrations`. Runs on one connection (it holds a lock of the session), as the database's
 * owner or a user that may create schemas and roles; no superuser is needed. Several may start at once: one works, the others wait
 * and find it done. Each file is one transaction together with its entry in `sealed_outbox.migration`.
 *
 * Refuses when a file that was applied has changed since. Accepts entries that are newer than the files, because a
 * rolled-back deployment runs the old migrator on the new schema.
 */
export async function migrate(
  client: Queryable,
  migrations: readonly Migration[],
  onApply: (migration: string) => void = () => {},
): Promise<MigrationReport> {
  return alone(client, async () => {
    await client.query(RECORDS);
    const { pending, present, newer } = await compare(client, migrations);
    const applied: string[] = [];
    for (const migration of pending) {
      onApply(title(migration));
      await apply(client, migration);
      applied.push(title(migration));
    }
    return { applied, present, newer };
  });
}

/** Does `work` while no other migrator of this database does anything; waits for one that does. May be nested on one connection. */
export async function alone<T>(client: Queryable, work: () => Promise<T>): Promise<T> {
  await client.query('select pg_advisory_lock($1::bigint)', [LOCK]);
  try {
    return await work();
  } finally {
    // Where the connection is lost the lock went with it, and the error that is on its way says more than this one would.
    await client.query('select pg_advisory_unlock($1::bigint)', [LOCK]).catch(() => {});
  }
}

/**
 * The migrations that this database lacks, in order, without applying them.
 *
 * @throws MigrationError (`MIGRATION_CHANGED`) as `migrate` does.
 */
export async function pendingMigrations(
  client: Queryable,
  migrations: readonly Migration[],
): Promise<readonly Migration[]> {
  const { rows } = await client.query(`select to_regclass('sealed_outbox.migration') is not null as "exists"`);
  return rows[0].exists ? (await compare(client, migrations)).pending : migrations;
}

/** What a person runs with a tool of their own to get what `migrate` does, its own records included. */
export function migrationScript(migrations: readonly Migration[]): string {
  if (migrations.length === 0) return '';
  const parts = migrations.map((migration) => {
    const body = `-- ${title(migration)}\n${migration.sql.trimEnd()}\n\nreset role;\n${recordOf(migration)};\n`;
    return isInTransaction(migration) ? `begin;\n${body}commit;\n` : body;
  });
  return [`${RECORDS.trim()};\n`, ...parts].join('\n');
}

interface Comparison {
  readonly pending: readonly Migration[];
  readonly present: number;
  readonly newer: readonly string[];
}

async function compare(client: Queryable, migrations: readonly Migration[]): Promise<Comparison> {
  const { rows } = await client.query('select area, number, name, checksum from sealed_outbox.migration order by 1, 2');
  const present = new Map<string, Pick<Migration, 'area' | 'number' | 'name' | 'checksum'>>(
    rows.map((row) => [`${row.area}/${row.number}`, row]),
  );
  const changed = migrations.filter((file) => {
    const row = present.get(`${file.area}/${file.number}`);
    return row !== undefined && row.checksum !== file.checksum;
  });
  if (changed.length > 0) {
    throw new MigrationError(
      'MIGRATION_CHANGED',
      `${changed.map(title).join(', ')} changed after being applied to this database. Nothing was applied. ` +
        'Restore the file as it was and put the change into a new one with the next number.',
    );
  }
  const known = new Set(migrations.map((file) => `${file.area}/${file.number}`));
  const areas = new Set(migrations.map((file) => file.area));
  return {
    pending: migrations.filter((file) => !present.has(`${file.area}/${file.number}`)),
    present: present.size,
    newer: [...present.values()]
      .filter((row) => areas.has(row.area) && !known.has(`${row.area}/${row.number}`))
      .map(title),
  };
}

async function apply(client: Queryable, migration: Migration): Promise<void> {
  const inTransaction = isInTransaction(migration);
  try {
    if (inTransaction) await client.query('begin');
    await client.query(migration.sql);
    await client.query('reset role');
    await client.query(recordOf(migration));
    if (inTransaction) await client.query('commit');
  } catch (cause) {
    // A lost connection rolls back by itself, and the first error says more than a second one.
    if (inTransaction) await client.query('rollback').catch(() => {});
    const reason = cause instanceof Error ? cause.message : 'unknown error';
    throw new MigrationError(
      'MIGRATION_FAILED',
      `${title(migration)} failed: ${reason}. ` +
        (inTransaction
          ? 'It was rolled back; those before it stay applied.'
          : 'It runs outside a transaction and may have been applied in part.'),
      { cause },
    );
  }
}

function isInTransaction(migration: Migration): boolean {
  return !migration.sql.startsWith(NO_TRANSACTION);
}

/** Area and name are of letters, digits and underscores, and the checksum is hexadecimal: nothing has to be escaped. */
function recordOf({ area, number, name, checksum }: Migration): string {
  return `insert into sealed_outbox.migration (area, number, name, checksum) values ('${area}', ${number}, '${name}', '${checksum}')`;
}
