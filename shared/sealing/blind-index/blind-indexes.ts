import { SealingError } from '../errors.ts';
import { type BlindIndex, blindValue, valuePrefix } from './blind-value.ts';
import type { IndexKey } from './index-keys.ts';
import type { Normaliser } from './normalise.ts';

/** Indexes whose keys are loaded. It only computes. */
export interface BlindIndexes {
  /**
   * What to write into the column beside a sealed value; null where there is nothing to find.
   *
   * @throws KeysNotPreparedError (`KEYS_NOT_PREPARED`) where the keys were not loaded, or over five minutes ago
   */
  valueOf(index: BlindIndex, clear: string | null): Buffer | null;
  /**
   * The rows whose opened value is the one wanted. Index values meet by chance (truncated ones often do) and may be written by others, so
   * each row that the query finds is opened and compared: there is no way to the index values around it.
   *
   * ```ts
   * const found = await indexes.find(customerEmail, 'ada@example.com',
   *   async (values) => (await pool.query('select id, email from customer where email_index = any($1)', [values])).rows,
   *   (row) => openValue(row.email, keys(row), placeOf(row)));
   * ```
   *
   * @param query gets the values of all live versions, and answers rows that have one of them
   * @param open the row's value in clear; what is no string (erased, closed) is no match.
   * @throws KeysNotPreparedError (`KEYS_NOT_PREPARED`); what `query` and `open` reject with
   */
  find<R>(
    index: BlindIndex,
    wanted: string,
    query: (values: readonly Buffer[]) => Promise<readonly R[]>,
    open: (row: R) => unknown,
  ): Promise<R[]>;
  /** What newly written values begin with: those that are less, byte by byte, are of older versions. */
  currentPrefix(index: BlindIndex): Buffer;
}

/** @param keysOf the keys of an index that live, or throws */
export function blindIndexes(keysOf: (index: BlindIndex) => readonly IndexKey[]): BlindIndexes {
  const valuesOf = (index: BlindIndex, text: string): Buffer[] =>
    keysOf(index).flatMap(({ secret, version }) =>
      [index.normaliser, ...index.earlier].flatMap(
        (normaliser) => blindValue(secret, version, index, normaliser, text) ?? [],
      ),
    );
  const active = (index: BlindIndex): IndexKey => {
    const key = keysOf(index).find(({ state }) => state === 'active');
    if (key === undefined) {
      throw new SealingError('SEALING_KEY_UNKNOWN', `The index '${index.name}' has no key that is active.`);
    }
    return key;
  };

  return {
    valueOf(index, clear) {
      const { secret, version } = active(index);
      return clear === null ? null : blindValue(secret, version, index, index.normaliser, clear);
    },

    async find(index, wanted, query, open) {
      const values = valuesOf(index, wanted);
      if (values.length === 0) return [];
      const rows = await query(values);
      const matches: (typeof rows)[number][] = [];
      for (const row of rows) {
        const clear = await open(row);
        if (typeof clear === 'string' && isSame(index, clear, wanted)) matches.push(row);
      }
      return matches;
    },

    currentPrefix: (index) => valuePrefix(active(index).version, index.normaliser.version),
  };
}

/** By any normaliser of the index: a row may be found by an earlier one. */
function isSame({ normaliser, earlier }: BlindIndex, one: string, other: string): boolean {
  const same = (by: Normaliser): boolean => {
    const normalised = by.normalise(one);
    return normalised !== null && normalised === by.normalise(other);
  };
  return [normaliser, ...earlier].some(same);
}
