import type pg from 'pg';
import type { Queryable } from '../../shared/database/index.ts';

/** Writes many events of `thing` past `append`, as a bulk load would; they go to `destination`. As the owner. */
export async function bulkLoad(
  owner: Queryable,
  events: number,
  { aggregates = events, destination = 'queue', prefix = 'bulk' } = {},
): Promise<void> {
  await owner.query(
    `with written as (
       insert into outbox.event (id, aggregate_type, aggregate_id, sequence, type, schema_version, data, metadata, occurred_at)
       select gen_random_uuid(), 'thing', $3 || '-' || n % $2, n / $2 + 1, 'thing.happened', 1, '{}', null, now()
         from generate_series(0, $1::integer - 1) n
       returning id, aggregate_id, sequence
     ), keyed as (
       select w.id, w.sequence, k.key
         from written w
         join (select distinct aggregate_id, outbox.aggregate_key('thing', aggregate_id) as key from written) k using (aggregate_id)
     )
     insert into outbox.delivery (event_id, destination, partition, aggregate_key, sequence, bytes)
     select k.id, d.number, get_byte(uuid_send(k.key), 0) & 63, k.key, k.sequence, 600
       from keyed k, outbox.destination d
      where d.name = $4
      order by k.sequence`,
    [events, aggregates, prefix, destination],
  );
}

/** What statements touched of the deliveries. */
export interface Visits {
  /** Walks through a whole table of the outbox. */
  readonly sequentialScans: number;
  /** Entries read of the index that finds work, and of the one that keeps chains together. */
  readonly pending: number;
  readonly chain: number;
}

/** Counts, by the server's own statistics of this transaction, what `work` touches. */
export async function visitsOf<T>(
  client: pg.ClientBase,
  work: () => Promise<T>,
): Promise<{ result: T; visits: Visits }> {
  const read = async (): Promise<Visits> => {
    const { rows } = await client.query(`
      select (select sum(pg_stat_get_xact_numscans(c.oid))::integer from pg_class c
               where c.oid in ('outbox.delivery'::regclass, 'outbox.event'::regclass)) as "sequentialScans",
             pg_stat_get_xact_tuples_returned('outbox.delivery_pending'::regclass)::integer as pending,
             pg_stat_get_xact_tuples_returned('outbox.delivery_chain'::regclass)::integer as chain`);
    return rows[0] as Visits;
  };
  await client.query('begin');
  try {
    const before = await read();
    const result = await work();
    const after = await read();
    return {
      result,
      visits: {
        sequentialScans: after.sequentialScans - before.sequentialScans,
        pending: after.pending - before.pending,
        chain: after.chain - before.chain,
      },
    };
  } finally {
    await client.query('commit');
  }
}
