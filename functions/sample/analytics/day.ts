import type { Queryable } from '../../../shared/database/index.ts';
import type { ReceivedEvent } from '../../../shared/events/index.ts';

/**
 * Adds an event to its day (UTC, of the event's own time). Everything of one day and type meets in one row, whose lock is held until the
 * commit: fine for counts of a small business; a busy one would spread each day over several rows.
 *
 * @param amountMinor in minor units of `currency`
 */
export async function count(tx: Queryable, event: ReceivedEvent, currency: string, amountMinor: number): Promise<void> {
  await tx.query(
    `insert into sample.analytics_day as d (day, type, currency, events, amount_minor)
     values (($1::timestamptz at time zone 'UTC')::date, $2, $3, 1, $4)
     on conflict (day, type, currency)
     do update set events = d.events + 1, amount_minor = d.amount_minor + excluded.amount_minor`,
    [event.time, event.type, currency, amountMinor],
  );
}
