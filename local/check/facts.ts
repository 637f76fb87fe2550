import type { Queryable } from '../../shared/database/index.ts';

/** What stands in the database, read in one snapshot. Times are those of the commits, milliseconds since 1970; null where the server has forgotten them, as it does of rows that it froze. */
export interface Facts {
  readonly events: readonly EventFact[];
  readonly entries: readonly EntryFact[];
  readonly ledger: readonly LedgerFact[];
  readonly analytics: readonly DayFact[];
  readonly notifications: readonly NotificationFact[];
  readonly held: readonly HeldFact[];
}

export interface EventFact {
  readonly id: string;
  readonly invoiceId: string;
  readonly sequence: number;
  readonly type: string;
  readonly data: { readonly totalMinor?: number; readonly amountMinor?: number };
  /** Of its own time, UTC: `2026-11-30`. */
  readonly day: string;
  /** One per destination. */
  readonly deliveries: readonly string[];
  readonly committedAt: number | null;
  /** Whether the ledger has applied it, and when its transaction committed. */
  readonly applied: boolean;
  readonly appliedAt: number | null;
  /** Whether analytics has taken it. */
  readonly counted: boolean;
}

/** One line of the ledger, in the order of application. */
export interface EntryFact {
  readonly eventId: string;
  readonly invoiceId: string;
  readonly sequence: number;
}

export interface LedgerFact {
  readonly invoiceId: string;
  readonly totalMinor: number;
  readonly paidMinor: number;
  readonly status: string;
  readonly lastSequence: number;
  readonly effects: number;
}

/** A mail as the consumer noted it. */
export interface NotificationFact {
  readonly eventId: string;
  readonly invoiceId: string;
  readonly mailId: string;
}

/** An event that a consumer keeps in `inbox.held_event`, or whose failures are counted there. */
export interface HeldFact {
  readonly consumer: string;
  readonly eventId: string;
  readonly reason: string;
}

/** What analytics counted of one type on one day, all currencies together: the check sends one. */
export interface DayFact {
  readonly day: string;
  readonly type: string;
  readonly events: number;
  readonly amountMinor: number;
}

/** From commit to effect, in milliseconds, of events of which both times are known, ascending. */
export function latenciesOf(events: readonly Pick<EventFact, 'committedAt' | 'appliedAt'>[]): number[] {
  return events
    .flatMap(({ committedAt, appliedAt }) =>
      committedAt === null || appliedAt === null ? [] : [appliedAt - committedAt],
    )
    .toSorted((a, b) => a - b);
}

/**
 * Reads it all. The server must run with `track_commit_timestamp`: it keeps the time of each commit, so that the way from
 * commit to effect is measured by the database itself and not by the columns of the product. `db` must see every table.
 */
export async function readFacts(db: Queryable): Promise<Facts> {
  // One statement for one snapshot: between two, an event could commit and be applied.
  const { rows } = await db.query(`
    select
      (select coalesce(json_agg(json_build_object(
          'id', e.id, 'invoiceId', e.aggregate_id, 'sequence', e.sequence, 'type', e.type, 'data', e.data,
          'deliveries', (select coalesce(json_agg(d.state), '[]') from outbox.delivery d where d.event_id = e.id),
          'committedAt', extract(epoch from pg_xact_commit_timestamp(e.xmin)) * 1000,
          'applied', exists (select from inbox.processed_event p where p.consumer = 'ledger' and p.event_id = e.id),
          'appliedAt', (select extract(epoch from pg_xact_commit_timestamp(p.xmin)) * 1000
                          from inbox.processed_event p where p.consumer = 'ledger' and p.event_id = e.id),
          'day', (e.occurred_at at time zone 'UTC')::date,
          'counted', exists (select from inbox.processed_event p where p.consumer = 'analytics' and p.event_id = e.id))
        order by e.aggregate_id, e.sequence), '[]') from outbox.event e) as events,
      (select coalesce(json_agg(json_build_object('eventId', event_id, 'invoiceId', invoice_id, 'sequence', sequence)
        order by entry), '[]') from sample.ledger_entry) as entries,
      (select coalesce(json_agg(json_build_object('invoiceId', invoice_id, 'totalMinor', total_minor, 'paidMinor', paid_minor,
          'status', status, 'lastSequence', last_sequence, 'effects', effects)), '[]') from sample.ledger_invoice) as ledger,
      (select coalesce(json_agg(json_build_object('day', day, 'type', type, 'events', events, 'amountMinor', amount_minor)),
          '[]') from sample.analytics_day) as analytics,
      (select coalesce(json_agg(json_build_object('eventId', event_id, 'invoiceId', invoice_id, 'mailId', mail_id)), '[]')
         from sample.notification) as notifications,
      (select coalesce(json_agg(json_build_object('consumer', consumer, 'eventId', event_id, 'reason', reason)
        order by consumer, held_at), '[]') from inbox.held_event) as held`);
  return rows[0] as Facts;
}

/** Events that have not arrived everywhere yet: not applied by each consumer that gets them, or not yet noted as published. */
export async function countUnfinished(db: Queryable): Promise<number> {
  const { rows } = await db.query(`
    select count(*)::integer as unfinished
      from outbox.event e
     where (select count(*) from inbox.processed_event p
             where p.consumer in ('ledger', 'analytics') and p.event_id = e.id) < 2
        or e.type = 'invoice.issued'
           and not exists (select from inbox.processed_event p where p.consumer = 'notifications' and p.event_id = e.id)
        or exists (select from outbox.delivery d where d.event_id = e.id and d.state <> 'published')`);
  return rows[0].unfinished as number;
}
