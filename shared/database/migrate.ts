import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SealedOutboxError } from '../errors/index.ts';
import type { Queryable } from './queryable.ts';

/** One numbered SQL file of an area: `migrations/outbox/0001_roles.sql`. */
export interface Migration {
  readonly area: string;
  readonly number: number;
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the text, hexadecimal. */
  readonly checksum: string;
}

export interface MigrationReport {
  /** `area/0001_name`, in the order in which they were applied now. */
  readonly applied: readonly string[];
  /** How many were there before. */
  readonly present: number;
  /** In the database but not among these files: a newer version has been here. They are left alone. */
  readonly newer: readonly string[];
}

/** A migration is missing, was changed, or failed. Codes: `MIGRATION_CHANGED`, `MIGRATION_FILES`, `MIGRATION_FAILED`. */
export class MigrationError extends SealedOutboxError {}

/** Statements that cannot run in a transaction, such as `create index concurrently`, stand in a file with this first line. */
const NO_TRANSACTION = '-- no transaction';

/** All that migrators of this database wait for each other on. The first 8 bytes of SHA-256("sealed outbox"). */
const LOCK = '5845533091629483518';

/** Reads the numbered files of `areas` below `directory`, in the areas' order. */
export async function readMigrations(directory: string, areas: readonly string[]): Promise<Migration[]> {
  const migrations: Migration[] = [];
  for (const area of areas) {
    const files = (await readdir(join(directory, area))).filter((file) => file.endsWith('.sql')).toSorted();
    for (const [index, file] of files.entries()) {
      const match = /^(\d{4})_([a-z0-9_]+)\.sql$/.exec(file);
      if (match?.[1] === undefined || match[2] === undefined || Number(match[1]) !== index + 1) {
        throw new MigrationError(
          'MIGRATION_FILES',
          `migrations/${area}/${file} breaks the numbering: files are 0001_name.sql, 0002_name.sql and so on, without gaps. Nothing was applied.`,
        );
      }
      const sql = await readFile(join(directory, area, file), 'utf8');
      const checksum = createHash('sha256').update(sql).digest('hex');
      migrations.push({ area, number: index + 1, name: match[2], sql, checksum });
    }
  }
  return migrations;
}

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
  await client.query('select pg_advisory_lock($1::bigint)', [LOCK]);
  try {
    await client.query(`
      create schema if not exists sealed_outbox;
      create table if not exists sealed_outbox.migration (
        area       text not null,
        number     integer not null,
        name       text not null,
        checksum   text not null,
        applied_at timestamptz not null default now(),
        primary key (area, number)
      )`);
    const { rows } = await client.query('select area, number, name, checksum from sealed_outbox.migration');
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
    const applied: string[] = [];
    for (const migration of migrations) {
      if (present.has(`${migration.area}/${migration.number}`)) continue;
      onApply(title(migration));
      await apply(client, migration);
      applied.push(title(migration));
    }
    const known = new Set(migrations.map((file) => `${file.area}/${file.number}`));
    const areas = new Set(migrations.map((file) => file.area));
    const newer = [...present.values()]
      .filter((row) => areas.has(row.area) && !known.has(`${row.area}/${row.number}`))
      .map(title);
    return { applied, present: present.size, newer };
  } finally {
    await client.query('select pg_advisory_unlock($1::bigint)', [LOCK]);
  }
}

async function apply(client: Queryable, migration: Migration): Promise<void> {
  const inTransaction = !migration.sql.startsWith(NO_TRANSACTION);
  try {
    if (inTransaction) await client.query('begin');
    await client.query(migration.sql);
    await client.query('reset role');
    await client.query('insert into sealed_outbox.migration (area, number, name, checksum) values ($1, $2, $3, $4)', [
      migration.area,
      migration.number,
      migration.name,
      migration.checksum,
    ]);
    if (inTransaction) await client.query('commit');
  } catch (cause) {
    if (inTransaction) await client.query('rollback');
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

function title(migration: Pick<Migration, 'area' | 'number' | 'name'>): string {
  return `${migration.area}/${String(migration.number).padStart(4, '0')}_${migration.name}`;
}
