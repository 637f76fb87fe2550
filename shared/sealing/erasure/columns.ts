import type { Queryable } from '../../database/index.ts';
import { isClassName, type KeyName } from '../sealed-text.ts';
import type { Subject } from '../wrapped-key.ts';
import { lowerCaseUuid } from '../associated-data.ts';
import { ErasureError } from './errors.ts';

/** Columns of a table that hold a person's data of one class: sealed values, blind indexes, or copies in clear of a read model. */
export interface ErasableColumns {
  /** `schema.table` */
  readonly table: string;
  /** The column that names a row, in whose order rows are locked. */
  readonly key: string;
  /** Kind of the persons that `subject` names. */
  readonly kind: string;
  /** The column with the person's id; UUIDs in lower case. It needs an index. */
  readonly subject: string;
  readonly class: string;
  /** They become null, so they must be nullable. */
  readonly columns: readonly string[];
}

const COLUMN = /^[a-z_][a-z0-9_]{0,62}$/;
const TABLE = /^[a-z_][a-z0-9_]{0,62}\.[a-z_][a-z0-9_]{0,62}$/;

/**
 * Checks which columns are cleared when a person is erased. The names come into SQL statements: lower-case letters, digits and `_` only.
 *
 * ```ts
 * export const erasable = defineErasable([
 *   { table: 'sample.customer', key: 'id', kind: 'customer', subject: 'id', class: 'contact', columns: ['name', 'email', 'email_index'] },
 * ]);
 * ```
 *
 * @throws ErasureError `ERASURE_DECLARATION`
 */
export function defineErasable(erasable: readonly ErasableColumns[]): readonly ErasableColumns[] {
  for (const { table, key, kind, subject, class: className, columns } of erasable) {
    if (typeof table !== 'string' || !TABLE.test(table)) throw refused('A table must be named schema.table.');
    const isSound =
      [key, subject].every((name) => typeof name === 'string' && COLUMN.test(name)) &&
      Array.isArray(columns) &&
      columns.length > 0 &&
      columns.every((name) => typeof name === 'string' && COLUMN.test(name) && name !== key && name !== subject);
    if (!isSound) throw refused(`${table}: key, subject and columns must be names of columns, and none of both kinds.`);
    if (typeof kind !== 'string' || kind === '') throw refused(`${table}: kind must say whose ids ${subject} holds.`);
    if (typeof className !== 'string' || !isClassName(className)) throw refused(`${table}: class is no class of data.`);
  }
  return erasable;
}

/** Sets a person's columns of these classes to null, in the caller's transaction. @returns how many rows were not clear before */
export async function clearColumns(
  tx: Queryable,
  erasable: readonly ErasableColumns[],
  person: Subject,
  classes: readonly KeyName['class'][],
): Promise<number> {
  let cleared = 0;
  for (const { table, key, kind, subject, class: className, columns } of erasable) {
    if (kind !== person.kind || !classes.includes(className)) continue;
    const { rowCount } = await tx.query(
      `update ${quoted(table)}
          set ${columns.map((column) => `${quoted(column)} = null`).join(', ')}
        where ${quoted(key)} in (select ${quoted(key)}
                                   from ${quoted(table)}
                                  where ${quoted(subject)} = $1
                                    and (${columns.map((column) => `${quoted(column)} is not null`).join(' or ')})
                                  order by ${quoted(key)}
                                    for update)`,
      [lowerCaseUuid(person.id)],
    );
    cleared += rowCount ?? 0;
  }
  return cleared;
}

function quoted(name: string): string {
  return name
    .split('.')
    .map((part) => `"${part}"`)
    .join('.');
}

function refused(message: string): ErasureError {
  return new ErasureError('ERASURE_DECLARATION', `${message} Nothing was erased.`);
}
