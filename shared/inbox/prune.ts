import type { Queryable } from '../database/index.ts';
import { type Log, silentLog } from '../telemetry/index.ts';
import { type Walk, walkOfFunction } from '../retention/index.ts';

export interface InboxRetention {
  /**
   * A dedupe row stays until its event is a quarter of an hour older than this, or than its consumer's window where that is longer, by the event's own time.
   * Seconds.
   */
  readonly keepSeconds: number;
  /** Dedupe rows of a page at most. Default: 5,000. */
  readonly page?: number;
  /** How often a walk starts at the beginning, for what an earlier one had to leave behind. Default: an hour. Seconds. */
  readonly sweepSeconds?: number;
  /** Is told of consumers whose dedupe rows stay longer than `keepSeconds`. Default: nobody is. */
  readonly log?: Log;
}

/** A consumer that has just found an event young enough may write its dedupe row as late as this: the longest invocation of Lambda. Seconds. */
const LONGEST_INVOCATION = 900;

/**
 * A walk through the dedupe rows of each consumer that has any, and the answers of their events' finished calls, and one through the counted failures
 * of events whose messages are gone; what may go is decided by `migrations/inbox/0010_windows.sql`. Role: `inbox_janitor`.
 */
export async function inboxWalks(db: Queryable, options: InboxRetention): Promise<Walk[]> {
  const { page = 5_000, sweepSeconds = 3_600, log = silentLog } = options;
  const keepSeconds = options.keepSeconds + LONGEST_INVOCATION;
  const { rows: consumers } = await db.query('select consumer from inbox.pruned_consumers() as c (consumer)');
  await tellOfLonger(db, options.keepSeconds, log);
  const dedupeRows = consumers.map(({ consumer }): Walk => ({
    area: 'inbox',
    name: `processed by ${consumer}`,
    async begin() {
      const { rows } = await db.query(`select inbox.begin_walk($1, $2 * interval '1 second') as mark`, [
        consumer,
        sweepSeconds,
      ]);
      return rows[0].mark as string;
    },
    async page(mark) {
      const { rows } = await db.query(`select * from inbox.prune($1, $2::uuid, $3 * interval '1 second', $4)`, [
        consumer,
        mark,
        keepSeconds,
        page,
      ]);
      const [{ reached, more, behind_seconds: behindSeconds, processed, calls }] = rows;
      return { mark: reached, more, behindSeconds, removed: { processed_event: processed, external_call: calls } };
    },
  }));
  return [...dedupeRows, walkOfFunction(db, { name: 'inbox.prune_counted', keepSeconds, page })];
}

async function tellOfLonger(db: Queryable, keepSeconds: number, log: Log): Promise<void> {
  const { rows } = await db.query(
    `select consumer_name as consumer, window_days as "windowDays" from inbox.windows_beyond($1 * interval '1 second')`,
    [keepSeconds],
  );
  for (const longer of rows) {
    log.warn("a consumer's dedupe rows are kept for its window, which is longer than the janitor's setting", {
      ...longer,
      keepDays: keepSeconds / 86_400,
    });
  }
}
