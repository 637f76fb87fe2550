import { type BlindIndex, blindIndex } from './blind-value.ts';
import type { IndexedColumn } from './backfill.ts';
import { normaliserNamed } from './normalise.ts';

/** An index and its columns as plain data, so that a stack can tell it to a function. */
export interface DeclaredIndex extends Pick<BlindIndex, 'name' | 'class'> {
  /** `name` of one of the library's normalisers: `email`, `name`, `tax-id`, `phone-90`. */
  readonly normaliser: string;
  /** Default: what the normaliser says. */
  readonly bits?: number;
  /** Every column that holds values of the index. One that is left out keeps values that nobody finds once the key has been rotated. */
  readonly columns: readonly IndexedColumn[];
}

/** An index, and every column that holds its values. */
export interface IndexOverColumns {
  readonly index: BlindIndex;
  readonly columns: readonly IndexedColumn[];
}

const COLUMN = /^[a-z_][a-z0-9_]{0,62}$/;
const TABLE = /^[a-z_][a-z0-9_]{0,62}(?:\.[a-z_][a-z0-9_]{0,62})?$/;

/**
 * Reads what was declared of indexes. Names of tables and columns come into SQL statements: lower-case letters, digits and `_` only.
 *
 * @throws TypeError for what is no declaration, and for two indexes of one name
 */
export function declaredIndexes(declared: readonly DeclaredIndex[]): IndexOverColumns[] {
  if (!Array.isArray(declared)) throw new TypeError('Indexes are declared as a list.');
  const indexes = (declared as readonly DeclaredIndex[]).map(({ columns, normaliser: name, ...rest }) => {
    const normaliser = normaliserNamed(name);
    if (normaliser === undefined) {
      throw new TypeError(`Index '${rest.name}': its normaliser must be email, name, tax-id or phone-<calling code>.`);
    }
    const index = blindIndex({ ...rest, normaliser });
    if (!Array.isArray(columns) || columns.length === 0 || !columns.every(isColumn)) {
      throw new TypeError(
        `Index '${index.name}': columns must be a list of {store, table, primaryKey, sealed, index}.`,
      );
    }
    return { index, columns };
  });
  if (new Set(indexes.map(({ index }) => index.name)).size < indexes.length) {
    throw new TypeError('Two indexes have the same name.');
  }
  return indexes;
}

function isColumn(value: unknown): value is IndexedColumn {
  const { store, table, relation = table, primaryKey, sealed, index } = (value ?? {}) as Record<string, unknown>;
  const texts = [store, table].every((text) => typeof text === 'string' && text !== '');
  const named = [primaryKey, sealed, index].every((name) => typeof name === 'string' && COLUMN.test(name));
  return texts && named && typeof relation === 'string' && TABLE.test(relation);
}
