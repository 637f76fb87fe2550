import type { Queryable } from '../database/index.ts';

/** What waits at one destination. Parked and blocked deliveries wait for a person, so they count apart. */
export interface DestinationLag {
  readonly destination: string;
  /** Whether the catalogue has it no more: what waits there has no way out. */
  readonly retired: boolean;
  readonly pending: number;
  /** Seconds since the oldest pending delivery was written; 0 when nothing is pending. */
  readonly oldestPendingAgeSeconds: number;
  readonly parked: number;
  readonly blocked: number;
  /** Blocked ones with nothing parked below them. There should be none: nobody would ever let them go. `unblock` does. */
  readonly orphaned: number;
}

export interface Lag {
  readonly destinations: readonly DestinationLag[];
  /** Seconds since any relay was last seen; null where none ever was. */
  readonly relaySilenceSeconds: number | null;
}

/**
 * The independent view of the outbox: works when the relay is dead, and as a role that may not read data.
 * One statement, so one snapshot; by the database's clock. Role: `outbox_monitor`.
 */
export async function readLag(db: Queryable): Promise<Lag> {
  // Parked heads are gathered once and joined: a search per blocked row would walk its whole chain where nothing is parked. 200,000 blocked
  // rows of one aggregate take 0.7 s so.
  const { rows } = await db.query(`
    with head as materialized (
      select destination, aggregate_key, min(sequence) as sequence
        from outbox.delivery
       where state = 'parked' and replay = 0
       group by destination, aggregate_key
    )
    select d.name as destination,
           d.retired_at is not null as retired,
           count(w.position) filter (where w.state = 'pending')::integer as pending,
           coalesce(extract(epoch from clock_timestamp() - min(w.created_at) filter (where w.state = 'pending')), 0)::float8 as age,
           count(w.position) filter (where w.state = 'parked')::integer as parked,
           count(w.position) filter (where w.state = 'blocked')::integer as blocked,
           count(w.position) filter (
             where w.state = 'blocked' and (head.sequence is null or head.sequence > w.sequence))::integer as orphaned,
           (select extract(epoch from clock_timestamp() - max(r.seen_at)) from outbox.relay r)::float8 as silence
      from outbox.destination d
      left join outbox.delivery w
        on w.destination = d.number and w.replay = 0 and w.state in ('pending', 'parked', 'blocked')
      left join head
        on w.state = 'blocked' and head.destination = w.destination and head.aggregate_key = w.aggregate_key
     group by d.number
     order by d.name`);
  return {
    destinations: rows.map((row) => ({
      destination: row.destination,
      retired: row.retired,
      pending: row.pending,
      oldestPendingAgeSeconds: Math.max(0, row.age),
      parked: row.parked,
      blocked: row.blocked,
      orphaned: row.orphaned,
    })),
    relaySilenceSeconds: rows[0]?.silence ?? null,
  };
}
