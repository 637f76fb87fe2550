import type { Queryable } from '../../database/index.ts';

/**
 * The relay's connection as lanes and lease share it: statements run one after the other, in the order in which they were asked for. That
 * order is relied upon: a scan that is asked for after a settlement sees what it wrote.
 */
export function oneAtATime(db: Queryable): Queryable {
  let last: Promise<unknown> = Promise.resolve();
  return {
    query(text, values) {
      const run = last.then(async () => db.query(text, values));
      last = run.catch(() => {});
      return run;
    },
  };
}
