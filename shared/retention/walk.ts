import type { Queryable } from '../database/index.ts';

/** What a page of a walk did. */
export interface PrunedPage {
  /** Where the next page begins. */
  readonly mark: string;
  /** Whether there is a next page. */
  readonly more: boolean;
  /** Seconds by which the rows at `mark` are older than they need to be kept; 0 where the walk has come to its end. */
  readonly behindSeconds: number;
  /** Rows deleted, by table. */
  readonly removed: Readonly<Record<string, number>>;
}

/** A walk through one table, oldest first. It can be left after any page: the next one goes on there. */
export interface Walk {
  /** Of `outbox`, `inbox` or an area of your own: the dimension of its metrics. */
  readonly area: string;
  readonly name: string;
  /** Worth nothing before the walk ahead of it in the list has come to its end. */
  readonly afterPrevious?: boolean;
  /** Where to begin. */
  begin(): Promise<string>;
  page(mark: string): Promise<PrunedPage>;
}

const FUNCTION = /^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$/;

/**
 * A walk by a SQL function of your own: `schema.name(keep interval, page integer)` deletes at most `page` rows that are older than `keep` and
 * returns how many; fewer mean that there are no more.
 */
export function walkOfFunction(
  db: Queryable,
  { name, keepSeconds, page = 1000 }: { readonly name: string; readonly keepSeconds: number; readonly page?: number },
): Walk {
  if (!FUNCTION.test(name)) throw new RangeError(`"${name}" is no schema.function in lower case`);
  return {
    area: name.slice(0, name.indexOf('.')),
    name,
    begin: async () => '',
    async page() {
      const { rows } = await db.query(`select ${name}($1 * interval '1 second', $2) as removed`, [keepSeconds, page]);
      const [{ removed }] = rows;
      return { mark: '', more: removed >= page, behindSeconds: 0, removed: { [name]: removed } };
    },
  };
}
