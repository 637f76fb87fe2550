/** One row as the driver gives it. Callers name the columns that their own SQL selects. */
// eslint-disable-next-line typescript/no-explicit-any -- a row's shape is known only to the statement beside it
export type Row = any;

export interface Result {
  readonly rows: Row[];
  readonly rowCount: number | null;
}

/**
 * Anything that runs one SQL statement with `$1` parameters: a `pg` client or pool, or one line of adapter for another
 * driver or an ORM.
 */
export interface Queryable {
  query(text: string, values?: readonly unknown[]): Promise<Result>;
}
