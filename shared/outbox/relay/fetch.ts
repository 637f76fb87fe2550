import type { Queryable } from '../../database/index.ts';
import type { Delivery, InstalledDestination } from './delivery.ts';

export interface WindowLimits {
  /** Rows at most. */
  readonly rows: number;
  /** Sum of the messages' sizes at most, in bytes; one larger message still comes alone. */
  readonly bytes: number;
  /** Rows of one aggregate at most: a longer one comes in slices. */
  readonly rowsOfAggregate: number;
}

/**
 * Reads what may be sent now from the given partitions to one destination, in one statement and so in one snapshot.
 *
 * The pending index only tells which aggregates have work. What order rests on is the look-up: of each of these aggregates **all**
 * that is not yet out comes, from the lowest sequence up, and is cut before the first that may not go: parked, blocked, or waiting for
 * its retry. Without it a transaction that commits late is overtaken: #5 takes its place and stays open, a scan moves past it, #6
 * commits, and goes first.
 */
export async function fetchWindow(
  db: Queryable,
  destination: InstalledDestination,
  partitions: readonly number[],
  limits: WindowLimits,
): Promise<Delivery[]> {
  if (partitions.length === 0) return [];
  const { rows } = await db.query(
    `with candidate as (
       select c.aggregate_key, min(c.xid) as xid, min(c.position) as position
         from (select d.aggregate_key, d.xid, d.position
                 from outbox.delivery d
                where d.destination = $1 and d.partition = any ($2) and d.state = 'pending'
                  and d.replay = 0 and d.due_at <= clock_timestamp()
                  and not exists (
                    select from outbox.delivery lower
                     where lower.destination = d.destination and lower.aggregate_key = d.aggregate_key
                       and lower.sequence < d.sequence and lower.replay = 0
                       and (lower.state in ('parked', 'blocked') or (lower.state = 'pending' and lower.due_at > clock_timestamp())))
                order by d.xid, d.position
                limit $3) c
        group by c.aggregate_key
     ),
     chain as (
       select candidate.xid as first_xid, candidate.position as first_position, d.*,
              bool_and(d.state = 'pending' and d.due_at <= clock_timestamp())
                over (partition by d.aggregate_key order by d.sequence) as may_go
         from candidate
        cross join lateral (
          select l.position, l.event_id, l.partition, l.aggregate_key, l.sequence, l.attempts, l.run, l.bytes, l.state, l.due_at
            from outbox.delivery l
           where l.destination = $1 and l.aggregate_key = candidate.aggregate_key and l.replay = 0
             and l.state in ('pending', 'parked', 'blocked')
           order by l.sequence
           limit $5
        ) d
     ),
     -- A prefix of each chain, so that the bound never leaves a hole.
     fitting as (
       select f.*
         from (select chain.*,
                      sum(bytes) over w - bytes as bytes_before,
                      row_number() over w as rank
                 from chain
                where may_go
               window w as (order by first_xid, first_position, aggregate_key, sequence)) f
        where f.rank <= $3 and (f.bytes_before < $4 or f.rank = 1)
     )
     select f.position, f.partition, f.aggregate_key, f.sequence, f.attempts, f.run,
            e.id, e.type, e.schema_version, e.aggregate_type, e.aggregate_id, e.data::text as data, e.metadata,
            to_char(e.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as occurred_at,
            i.source
       from fitting f
       join outbox.event e on e.id = f.event_id
      cross join outbox.installation i
      order by f.rank`,
    [destination.number, partitions, limits.rows, limits.bytes, limits.rowsOfAggregate],
  );
  return rows.map((row) => ({
    position: row.position,
    destination: destination.name,
    partition: row.partition,
    aggregateKey: row.aggregate_key,
    sequence: BigInt(row.sequence),
    attempts: row.attempts,
    run: row.run,
    event: {
      id: row.id,
      source: row.source,
      type: row.type,
      schemaVersion: row.schema_version,
      aggregateType: row.aggregate_type,
      aggregateId: row.aggregate_id,
      sequence: row.sequence,
      occurredAt: row.occurred_at,
      data: row.data,
      metadata: row.metadata,
    },
  }));
}

/** The destinations of the installed catalogue. */
export async function readDestinations(db: Queryable): Promise<InstalledDestination[]> {
  const { rows } = await db.query(
    'select number, name, kind, ordered, group_id as "groupId" from outbox.destination order by number',
  );
  return rows;
}
