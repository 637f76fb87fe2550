import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { SealedOutboxError } from '../errors/index.ts';

/** One numbered SQL file of an area: `migrations/outbox/0001_roles.sql`. */
export interface Migration {
  readonly area: string;
  readonly number: number;
  readonly name: string;
  readonly sql: string;
  /** SHA-256 of the text, hexadecimal. */
  readonly checksum: string;
}

/** A migration is missing, was changed, or failed. Codes: `MIGRATION_CHANGED`, `MIGRATION_FILES`, `MIGRATION_FAILED`. */
export class MigrationError extends SealedOutboxError {}

const AREA = /^[a-z][a-z0-9_]*$/;

/** Reads the numbered files of `areas` below `directory`, in the areas' order. */
export async function readMigrations(directory: string, areas: readonly string[]): Promise<Migration[]> {
  const migrations: Migration[] = [];
  for (const area of areas) {
    const files = await filesOf(directory, area);
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

async function filesOf(directory: string, area: string): Promise<string[]> {
  if (!AREA.test(area)) {
    throw new MigrationError('MIGRATION_FILES', `"${area}" is no name of an area. Nothing was applied.`);
  }
  try {
    return (await readdir(join(directory, area))).filter((file) => file.endsWith('.sql')).toSorted();
  } catch (cause) {
    throw new MigrationError('MIGRATION_FILES', `There is no area "${area}" in ${directory}. Nothing was applied.`, {
      cause,
    });
  }
}

/** How a migration is called everywhere: `outbox/0001_roles`. */
export function title(migration: Pick<Migration, 'area' | 'number' | 'name'>): string {
  return `${migration.area}/${String(migration.number).padStart(4, '0')}_${migration.name}`;
}
