import { SealingError, type SealingErrorCode } from '../errors.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { VaultPool } from '../keyring/postgres-vault.ts';
import { ERASED_TEXT, type KeyName, parseSealed } from '../sealed-text.ts';
import { openValue } from '../value.ts';
import { type BlindIndex, valuePrefix } from './blind-value.ts';
import type { IndexKeys } from './index-keys.ts';

/** An index column, and the column of sealed values that it is over. */
export interface IndexedColumn {
  /** As the sealed values were bound: `RowContext.store` and `RowContext.table`. */
  readonly store: string;
  readonly table: string;
  /** Where the table is: `schema.table`, each as it is written without quotes. Default: `table`. */
  readonly relation?: string;
  readonly primaryKey: string;
  readonly sealed: string;
  readonly index: string;
}

export interface BackfillOptions {
  /** Of a login that may read the columns and write the index column. */
  readonly pool: VaultPool;
  /** That opens the class. */
  readonly keyring: Keyring;
  readonly indexKeys: IndexKeys;
  readonly index: BlindIndex;
  readonly column: IndexedColumn;
  /** Go on after the row with this primary key; null: from the first. */
  readonly after: string | null;
  /** Most rows to look at; default 500. */
  readonly rows?: number;
}

export interface Backfilled {
  /** Rows that have a value of today's version now. */
  readonly written: number;
  /** Rows that stay as they are, by the reason: what opening says, `changed` meanwhile, `no text`, or of nobody any more: `erased`. */
  readonly left: Readonly<Partial<Record<SealingErrorCode | 'changed' | 'no text' | 'erased', number>>>;
  /** Primary key to go on after; null: all rows were looked at. */
  readonly next: string | null;
}

const PASSING: ReadonlySet<string> = new Set(['SEALING_THROTTLED', 'SEALING_UNAVAILABLE', 'SEALING_KEY_DISABLED']);

interface OldRow {
  readonly key: string;
  readonly sealed: string;
  readonly old: Buffer | null;
}

/**
 * Brings a batch of an index column up to date: rows with a sealed value and no index value, or one of an older version. Keys are loaded first, then the batch is
 * one statement, which leaves alone what somebody else has changed meanwhile. Call it until `next` is null; begin anywhere again after an interruption.
 *
 * @throws SealingError where keys cannot be loaded; what the pool rejects with
 */
export async function backfillIndex(options: BackfillOptions): Promise<Backfilled> {
  const { pool, keyring, indexKeys, index, column, after, rows: most = 500 } = options;
  const { relation, primaryKey, sealed, index: indexColumn } = quoted(column);
  const indexes = await indexKeys.load([index]);
  const { rows } = await pool.query(
    `select ${primaryKey}::text as key, ${sealed} as sealed, ${indexColumn} as old
       from ${relation}
      where ${sealed} is not null and (${indexColumn} is null or ${indexColumn} < $1)
            ${after === null ? '' : `and ${primaryKey} > $3`}
      order by ${primaryKey}
      limit $2`,
    [indexes.currentPrefix(index), most, ...(after === null ? [] : [after])],
  );
  const found = rows as readonly OldRow[];
  const left: Record<string, number> = {};
  const leave = (reason: string, count = 1): void => {
    left[reason] = (left[reason] ?? 0) + count;
  };

  const keys = await keyring.keysToOpen(found.flatMap((row) => nameOf(row.sealed) ?? []));
  const open = (row: OldRow): unknown => {
    const name = nameOf(row.sealed);
    if (row.sealed === ERASED_TEXT) return new Left('erased');
    if (name === null) return new Left('SEALING_MALFORMED');
    try {
      const key = keys(name);
      if (key === 'erased') return new Left('erased');
      if (key === 'denied') return new Left('SEALING_DENIED');
      if (key === undefined) return new Left('SEALING_KEY_UNKNOWN');
      const { store, table } = column;
      return openValue(row.sealed, key, { in: 'row', store, table, primaryKey: row.key, column: column.sealed });
    } catch (error) {
      // Keys that come back later: the row must not pass for one that was looked at.
      if (!(error instanceof SealingError) || PASSING.has(error.code)) throw error;
      return new Left(error.code);
    }
  };

  const fresh: (OldRow & { readonly value: Buffer })[] = [];
  for (const row of found) {
    const clear = open(row);
    const value = typeof clear === 'string' ? indexes.valueOf(index, clear) : null;
    if (value !== null) fresh.push({ ...row, value });
    else leave(clear instanceof Left ? clear.reason : 'no text');
  }
  const written = fresh.length === 0 ? 0 : await write(pool, column, fresh);
  if (written < fresh.length) leave('changed', fresh.length - written);
  return { written, left, next: found.length < most ? null : (found.at(-1)?.key ?? null) };
}

/**
 * Whether a column holds index values of a key version below this one. The index on the column answers it.
 *
 * @throws what the pool rejects with
 */
export async function hasOlderValues(pool: VaultPool, column: IndexedColumn, version: number): Promise<boolean> {
  const { relation, index } = quoted(column);
  const { rows } = await pool.query(`select exists (select from ${relation} where ${index} < $1) as older`, [
    valuePrefix(version, 0),
  ]);
  return (rows[0] as { readonly older: boolean }).older;
}

/**
 * Whether a column has rows for `backfillIndex`: a sealed value beside no index value, or beside one that is below `current`. A partial index on the primary key, where
 * the sealed column is not null and that of the index is, answers the first at once; without one all rows that have no index value are read.
 *
 * @param current what values of today begin with; undefined: the index has no key yet
 * @throws what the pool rejects with
 */
export async function needsBackfill(
  pool: VaultPool,
  column: IndexedColumn,
  current: Buffer | undefined,
): Promise<boolean> {
  const { relation, sealed, index } = quoted(column);
  const { rows } = await pool.query(
    `select exists (select from ${relation} where ${index} < $1)
            or exists (select from ${relation} where ${index} is null and ${sealed} is not null and ${sealed} <> $2) as needed`,
    [current ?? Buffer.alloc(0), ERASED_TEXT],
  );
  return (rows[0] as { readonly needed: boolean }).needed;
}

async function write(
  pool: VaultPool,
  column: IndexedColumn,
  rows: readonly (OldRow & { readonly value: Buffer })[],
): Promise<number> {
  const { relation, primaryKey, sealed, index } = quoted(column);
  const { rows: written } = await pool.query(
    `update ${relation} t
        set ${index} = w.value
       from unnest($1::text[], $2::text[], $3::bytea[], $4::bytea[]) as w (key, sealed, old, value)
      where t.${primaryKey}::text = w.key and t.${sealed} = w.sealed and t.${index} is not distinct from w.old
            and t.${primaryKey} = any ($5)
      returning 1`,
    [
      rows.map(({ key }) => key),
      rows.map((row) => row.sealed),
      rows.map(({ old }) => old),
      rows.map(({ value }) => value),
      rows.map(({ key }) => key),
    ],
  );
  return written.length;
}

class Left {
  readonly reason: SealingErrorCode | 'erased';
  constructor(reason: SealingErrorCode | 'erased') {
    this.reason = reason;
  }
}

function nameOf(sealed: string): KeyName | null {
  try {
    return parseSealed(sealed)?.key ?? null;
  } catch {
    return null;
  }
}

function quoted({
  table,
  relation = table,
  primaryKey,
  sealed,
  index,
}: IndexedColumn): Record<'relation' | 'primaryKey' | 'sealed' | 'index', string> {
  const quote = (name: string): string => {
    if (!/^[a-z_][a-z0-9_]{0,62}$/.test(name)) throw new TypeError('Tables and columns are named in a-z, 0-9 and _.');
    return `"${name}"`;
  };
  return {
    relation: relation.split('.').map(quote).join('.'),
    primaryKey: quote(primaryKey),
    sealed: quote(sealed),
    index: quote(index),
  };
}
