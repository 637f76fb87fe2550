import type { Queryable } from '../../shared/database/index.ts';
import { type OutboxRetention, outboxWalks, systemClock } from '../../shared/outbox/index.ts';
import { type JanitorOptions, type JanitorReport, runJanitor, type Walk } from '../../shared/retention/index.ts';
import { noMetrics, silentLog } from '../../shared/telemetry/index.ts';

export const DAY = 86_400;
/** As long as the tests let events stay. Seconds. */
export const KEEP = 10 * DAY;

/** A janitor without rest and with all the time that it wants. */
export function walkAll(walks: readonly Walk[], more: Partial<JanitorOptions> = {}): Promise<JanitorReport> {
  return runJanitor({
    walks,
    budgetMs: 60_000,
    rest: 0,
    clock: systemClock,
    log: silentLog,
    metrics: noMetrics,
    ...more,
  });
}

/** Prunes the outbox; each run starts at the beginning unless `sweepSeconds` says otherwise. */
export function pruneOutbox(
  janitor: Queryable,
  options: Partial<OutboxRetention> = {},
  more: Partial<JanitorOptions> = {},
): Promise<JanitorReport> {
  return walkAll(outboxWalks(janitor, { keepSeconds: KEEP, metrics: noMetrics, sweepSeconds: 0, ...options }), more);
}

/** Makes everything that was written and published so far `days` older than it is. As the owner. */
export async function letAge(owner: Queryable, days: number): Promise<void> {
  await owner.query(
    `update outbox.delivery set created_at = created_at - $1 * interval '1 day', published_at = published_at - $1 * interval '1 day'`,
    [days],
  );
}

/** Marks as published what is pending, as a relay does. As the owner. */
export async function publishAll(owner: Queryable): Promise<void> {
  await owner.query(
    `update outbox.delivery set state = 'published', published_at = clock_timestamp(), message_id = 'm' where state = 'pending'`,
  );
}

/** What is left, as `aggregate#sequence` of the events, and positions of the deliveries. */
export async function remaining(owner: Queryable): Promise<{ events: string[]; deliveries: string[] }> {
  const { rows } = await owner.query(`
    select (select coalesce(array_agg(aggregate_id || '#' || sequence order by aggregate_id, sequence), '{}') from outbox.event) as events,
           (select coalesce(array_agg(position::text order by position), '{}') from outbox.delivery) as deliveries`);
  return rows[0];
}

/** A UUID of version 7 of a moment, told from others by `n`. */
export function uuidAt(ms: number, n: number): string {
  const hex = Math.floor(ms).toString(16).padStart(12, '0');
  return `${hex.slice(0, 8)}-${hex.slice(8)}-7000-8000-${n.toString(16).padStart(12, '0')}`;
}
