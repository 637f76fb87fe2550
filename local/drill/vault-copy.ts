import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { finished } from 'node:stream/promises';
import type pg from 'pg';

/** Rows in memory at a time. */
const BATCH = 1000;

/** Tables of the vault, those that others refer to before those that refer to them. */
async function tablesOf(owner: pg.Client): Promise<string[]> {
  const { rows } = await owner.query(
    `select c.relname as name,
            array(select f.confrelid::regclass::text from pg_constraint f
                   where f.conrelid = c.oid and f.contype = 'f' and f.confrelid <> c.oid) as needs
       from pg_class c
      where c.relnamespace = 'vault'::regnamespace and c.relkind = 'r'
      order by c.relname`,
  );
  const sorted: string[] = [];
  while (sorted.length < rows.length) {
    const next = rows.find(
      ({ name, needs }) =>
        !sorted.includes(name) && needs.every((need: string) => sorted.includes(need.replace(/^vault\./, ''))),
    );
    if (next === undefined) throw new Error('The tables of the vault refer to each other in a circle.');
    sorted.push(next.name);
  }
  return sorted;
}

export interface VaultCopy {
  readonly rows: number;
  readonly bytes: number;
}

/** Writes every table of the vault as lines of JSON, one file each, all of one snapshot. As the owner, whom no policy hides a row from. */
export async function copyVault(owner: pg.Client, directory: string): Promise<VaultCopy> {
  let rows = 0;
  let bytes = 0;
  await owner.query('begin isolation level repeatable read read only');
  try {
    for (const table of await tablesOf(owner)) {
      const file = createWriteStream(join(directory, `${table}.ndjson`));
      await owner.query(`declare copy no scroll cursor for select row_to_json(t)::text as line from vault.${table} t`);
      for (;;) {
        const { rows: lines } = await owner.query(`fetch ${BATCH} from copy`);
        if (lines.length === 0) break;
        const text = lines.map(({ line }) => `${line}\n`).join('');
        rows += lines.length;
        bytes += Buffer.byteLength(text);
        if (!file.write(text)) await once(file, 'drain');
      }
      await owner.query('close copy');
      file.end();
      await finished(file);
    }
  } finally {
    await owner.query('commit');
  }
  return { rows, bytes };
}

/**
 * Puts a copy into a freshly migrated vault, all of it or nothing. As the owner.
 *
 * @returns how many rows
 */
export async function pasteVault(owner: pg.Client, directory: string): Promise<number> {
  let rows = 0;
  await owner.query('begin');
  try {
    const tables = await tablesOf(owner);
    await owner.query(`truncate ${tables.map((table) => `vault.${table}`).join(', ')}`);
    for (const table of tables) {
      const { rows: found } = await owner.query(
        `select string_agg(quote_ident(attname), ', ') as columns
           from pg_attribute
          where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''`,
        [`vault.${table}`],
      );
      const [{ columns }] = found;
      const insert = async (lines: readonly string[]): Promise<void> => {
        const { rowCount } = await owner.query(
          `insert into vault.${table} (${columns}) overriding system value
           select ${columns} from json_populate_recordset(null::vault.${table}, $1)`,
          [`[${lines.join(',')}]`],
        );
        rows += rowCount ?? 0;
      };
      let lines: string[] = [];
      for await (const line of createInterface({ input: createReadStream(join(directory, `${table}.ndjson`)) })) {
        lines.push(line);
        if (lines.length < BATCH) continue;
        await insert(lines);
        lines = [];
      }
      if (lines.length > 0) await insert(lines);
    }
    await owner.query('commit');
  } catch (error) {
    await owner.query('rollback');
    throw error;
  }
  return rows;
}
