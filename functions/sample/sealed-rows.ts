import {
  ERASED_TEXT,
  KeysNotPreparedError,
  type KeyName,
  type OpeningKeys,
  openValue,
  parseSealed,
  reseal,
  type RowContext,
  Sealed,
  type SealingContext,
  SealingError,
  type SealingKeys,
  sealValue,
  type Subject,
  type SubjectKey,
} from '../../shared/sealing/index.ts';
import type { DataClass } from './catalogue/classes.ts';

/** A table's sealed columns, with the class of each. */
export interface SealedTable<Column extends string = string> {
  /** Equal tables of two services must differ. */
  readonly store: string;
  readonly table: string;
  readonly columns: Readonly<Record<Column, DataClass>>;
}

/** What a row holds at its sealed columns. */
export type SealedRow<Column extends string> = Readonly<Record<Column, string | null>>;

export function rowContext<Column extends string>(
  { store, table }: SealedTable<Column>,
  primaryKey: string,
  column: Column,
): RowContext {
  return { in: 'row', store, table, primaryKey, column };
}

/**
 * Values of one person, sealed for one row. What is left out becomes null, what belongs to an erased person the mark of that.
 *
 * @throws KeysNotPreparedError (`KEYS_NOT_PREPARED`), SealingRefusedError (`SEALING_REFUSED`)
 */
export function sealRow<Column extends string>(
  table: SealedTable<Column>,
  primaryKey: string,
  keys: SealingKeys,
  subject: Subject,
  values: Readonly<Partial<Record<Column, unknown>>>,
): SealedRow<Column> {
  const sealed = columnsOf(table).map(([column, className]) => {
    const value = values[column];
    if (value === undefined || value === null) return [column, null];
    const key = keyOf(keys, className, subject);
    return [column, key === 'erased' ? ERASED_TEXT : sealValue(value, key, rowContext(table, primaryKey, column))];
  });
  return Object.fromEntries(sealed) as SealedRow<Column>;
}

/** @throws KeysNotPreparedError (`KEYS_NOT_PREPARED`) */
export function keyOf(keys: SealingKeys, className: DataClass, subject: Subject): SubjectKey | 'erased' {
  const key = keys(className, subject);
  if (key !== undefined) return key;
  throw new KeysNotPreparedError(
    `The key of class '${className}' was not loaded, or over five minutes ago. Nothing was sealed.`,
  );
}

/** The keys that a row's values are sealed with, to load before it is opened. @throws SealingError `SEALING_MALFORMED`, `SEALING_LIMIT` */
export function sealedRowNames(row: Readonly<Record<string, string | null>>): KeyName[] {
  return Object.values(row).flatMap((text) => (text === null || text === ERASED_TEXT ? [] : [partsOf(text).key]));
}

/**
 * The values of a row: null where there is none, `Sealed` where it is erased or of a class that this service may not open.
 *
 * @throws SealingError
 */
export function openRow<Column extends string>(
  table: SealedTable<Column>,
  primaryKey: string,
  row: SealedRow<Column>,
  keys: OpeningKeys,
): Record<Column, unknown> {
  const opened = columnsOf(table).map(([column, className]) => {
    const text = row[column];
    return [column, text === null ? null : open(text, className, keys, rowContext(table, primaryKey, column))];
  });
  return Object.fromEntries(opened) as Record<Column, unknown>;
}

function open(text: string, className: DataClass, keys: OpeningKeys, context: RowContext): unknown {
  if (text === ERASED_TEXT) return new Sealed(text, 'erased');
  const { key: name } = partsOf(text);
  if (name.class !== className) {
    throw new SealingError('SEALING_MALFORMED', `${context.table}.${context.column} holds a value of another class.`);
  }
  const key = existing(keys(name));
  return typeof key === 'string' ? new Sealed(text, key) : openValue(text, key, context);
}

/**
 * Moves a sealed value to another place, under the same key: nobody sees it on the way. That its person was erased moves along.
 *
 * @throws SealingError, `SEALING_DENIED` where the class may not be opened
 */
export function moveSealed(text: string, keys: OpeningKeys, from: SealingContext, to: SealingContext): string {
  if (text === ERASED_TEXT) return text;
  const key = existing(keys(partsOf(text).key));
  if (key === 'denied') throw new SealingError('SEALING_DENIED', 'A value is to be kept that may not be opened.');
  return key === 'erased' ? ERASED_TEXT : reseal(text, { key, context: from }, { key, context: to });
}

function existing(key: ReturnType<OpeningKeys>): SubjectKey | 'erased' | 'denied' {
  if (key !== undefined) return key;
  throw new SealingError('SEALING_KEY_UNKNOWN', 'A value was sealed with a key that does not exist.');
}

function partsOf(text: string): NonNullable<ReturnType<typeof parseSealed>> {
  const parts = parseSealed(text);
  if (parts !== null) return parts;
  throw new SealingError('SEALING_MALFORMED', 'A value is clear and must be sealed.');
}

function columnsOf<Column extends string>({ columns }: SealedTable<Column>): [Column, DataClass][] {
  return Object.entries(columns) as [Column, DataClass][];
}
