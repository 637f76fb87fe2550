import type { Queryable } from '../database/index.ts';

/**
 * Takes the event for this consumer, in the transaction that also holds its effect. Another transaction that has taken it
 * and is still open makes this one wait: for a repeat if that one commits, for the event if it rolls back. So there is no
 * state "in progress" that a crash could leave behind.
 *
 * @returns the event's age in seconds by the database's clock, or `null` when it has been processed before
 */
export async function takeEvent(
  tx: Queryable,
  consumer: string,
  event: { readonly id: string; readonly time: string },
): Promise<number | null> {
  const { rows } = await tx.query(
    `insert into inbox.processed_event (consumer, event_id, event_time) values ($1, $2, $3)
     on conflict (consumer, event_id) do nothing
     returning extract(epoch from clock_timestamp() - event_time)::float8 as age`,
    [consumer, event.id, event.time],
  );
  const row = rows[0] as { age: number } | undefined;
  return row === undefined ? null : row.age;
}
