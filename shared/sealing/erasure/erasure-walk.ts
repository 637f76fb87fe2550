import type { Metrics } from '../../telemetry/index.ts';
import type { Subject } from '../wrapped-key.ts';
import { applyEntry } from './apply.ts';
import { entriesAfter } from './entries.ts';
import { destroyKept, finishRequests, type FinishOptions } from './finish.ts';
import { announceAgain } from './second-pass.ts';

export interface ErasureWalkOptions extends FinishOptions {
  readonly metrics: Metrics;
}

/** Persons of one kind of work in one page. */
const PAGE = 20;
/** Entries of the log in one page. */
const ENTRIES = 100;

/** A walk of the janitor, as shared/retention has them. */
interface ErasureWalk {
  readonly area: 'erasure';
  readonly name: 'erasure';
  begin(): Promise<string>;
  page(): Promise<{
    readonly mark: string;
    readonly more: boolean;
    readonly behindSeconds: number;
    readonly removed: Readonly<Record<string, number>>;
  }>;
}

/**
 * What the janitor does about erasures, page by page, as the walk `erasure` of the area `erasure`:
 *
 * 1. applies entries of the log that this database has not done: of an interrupted erasure, or all since an older backup;
 * 2. does what was asked for and is due: of an interrupted erasure, or after its delay;
 * 3. destroys keys that no longer have to be kept;
 * 4. tells consumers once more, twenty minutes after.
 *
 * One that fails does not stop the others; the page then fails, and the next run tries it again.
 *
 * Metrics: `ErasuresWaiting` (Count), persons in their delay; `ErasuresUnapplied` (Count), entries of 1, those that could not be applied included. The janitor adds `PruneLag` of the area `erasure`: how
 * long the oldest of 2 and 3 is overdue.
 */
export function erasureWalk(options: ErasureWalkOptions): ErasureWalk {
  const { pool, log, metrics } = options;
  return {
    area: 'erasure',
    name: 'erasure',
    async begin() {
      const { rows } = await pool.query(OVERVIEW);
      metrics.add('ErasuresWaiting', 'Count', rows[0].waiting as number);
      return '';
    },
    async page() {
      const through = await pool.query('select through::float8 as through from vault.erasure_position');
      const failures: Error[] = [];
      const attempt = async (work: () => Promise<unknown>): Promise<number> => {
        try {
          return (await work()) === false ? 0 : 1;
        } catch (error) {
          failures.push(error as Error);
          return 0;
        }
      };

      let applied = 0;
      const stuck: Buffer[] = [];
      for await (const entry of entriesAfter(log, through.rows[0].through as number)) {
        const failedBefore = failures.length;
        applied += await attempt(() => applyEntry(options, entry));
        if (failures.length > failedBefore) stuck.push(entry.subjectHmac);
        // Counting what was done: entries behind one that always fails are done all the same.
        if (applied === ENTRIES) break;
      }
      metrics.add('ErasuresUnapplied', 'Count', applied + stuck.length);

      let finished = 0;
      const due = await personsOf(options, DUE, stuck);
      for (const subject of due) finished += await attempt(() => finishRequests(options, subject));
      let destroyed = 0;
      const kept = await personsOf(options, KEPT, stuck);
      for (const subject of kept) destroyed += await attempt(() => destroyKept(options, subject));
      let told = 0;
      const again = await pool.query(AGAIN, [PAGE]);
      for (const { number } of again.rows) told += await attempt(() => announceAgain(options, number as number));

      if (failures[0] !== undefined) throw failures[0];
      const more = applied === ENTRIES || [due, kept, again.rows].some(({ length }) => length === PAGE);
      const removed = { applied, finished, destroyed, told };
      const { rows } = await pool.query(OVERVIEW);
      return { mark: '', more, behindSeconds: rows[0].lag as number, removed };
    },
  };
}

/** Without those of whom the log has an entry that has just failed: each run would write another that says the same. */
async function personsOf(
  { pool }: ErasureWalkOptions,
  statement: string,
  stuck: readonly Buffer[],
): Promise<Subject[]> {
  const { rows } = await pool.query(statement, [PAGE, stuck]);
  return rows.map(({ kind, id }) => ({ kind, id }));
}

// In any order: one that always fails must not be the head of every page.
const DUE = `
  select subject_kind as kind, subject_id as id
    from (select distinct subject_kind, subject_id from vault.erasure_request
           where due_at <= now() and subject_hmac <> all ($2::bytea[])) r
   order by random() limit $1`;

const KEPT = `
  select subject_kind as kind, subject_id as id
    from (select distinct subject_kind, subject_id from vault.restricted_key
           where keep_until <= now() and subject_hmac <> all ($2::bytea[])) r
   order by random() limit $1`;

const AGAIN = `
  select number::float8 as number from vault.erasure where announce_again_at <= now() order by random() limit $1`;

const OVERVIEW = `
  select extract(epoch from now() - least((select min(due_at) from vault.erasure_request where due_at <= now()),
                                          (select min(keep_until) from vault.restricted_key where keep_until <= now()),
                                          now()))::float8 as lag,
         (select count(distinct (subject_kind, subject_id)) from vault.erasure_request where due_at > now())::integer as waiting`;
