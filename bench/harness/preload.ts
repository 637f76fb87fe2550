import type pg from 'pg';

export interface Preload {
  readonly events: number;
  /** `thing-000000` and on. */
  readonly aggregates: number;
  /** Length of the text in `data`. */
  readonly bytes: number;
  /** Default `pending`. */
  readonly state?: 'pending' | 'published';
  /** Names of the aggregates begin with this; default `thing`. */
  readonly prefix?: string;
  /** How long ago they were written and published; default 0. */
  readonly ageDays?: number;
  /** Events a transaction, each with an id of its own; default 100. */
  readonly batch?: number;
}

/**
 * Rows as `outbox.append` writes them, made in the database: appending a million events one by one would take ten minutes.
 * `preloadEqualsAppend` compares the two. Aggregates take turns, so that the oldest 10,000 events are of as many aggregates.
 */
export async function preload(client: pg.Client, options: Preload): Promise<void> {
  const { events, aggregates, bytes, state = 'pending', prefix = 'thing', ageDays = 0, batch = 100 } = options;
  await client.query(`
    create temp table bench_aggregate as
    select n, a.id, outbox.aggregate_key('thing', a.id) as key
      from generate_series(0, ${aggregates - 1}) n
     cross join lateral (select '${prefix}-' || lpad(n::text, 6, '0') as id) a;
    create unique index on bench_aggregate (n);
    analyze bench_aggregate;
    -- Copied as it is stored: to compress 100 KB anew for each event would take longer than all else.
    create temp table bench_payload as select json_build_object('text', repeat('x', ${bytes})) as data`);
  // What append counts for such an event; found out, not computed a second time.
  await client.query('begin');
  const { rows } = await client.query(
    `with appended as (select * from outbox.append($1))
     select id from appended`,
    [JSON.stringify([event(`${prefix}-sample`, bytes)])],
  );
  const sample = await client.query('select bytes, destination from outbox.delivery where event_id = $1', [rows[0].id]);
  await client.query('rollback');
  const { destination, bytes: sampleBytes } = sample.rows[0];

  await client.query('set synchronous_commit = off');
  await client.query(`
    insert into outbox.stream (aggregate_type, aggregate_id, sequence)
    select 'thing', a.id, count(*) from generate_series(0, ${events - 1}) i
      join bench_aggregate a on a.n = i % ${aggregates} group by a.id
    on conflict (aggregate_type, aggregate_id) do update set sequence = stream.sequence + excluded.sequence`);
  await client.query(`
    do $$
    begin
      for low in 0 .. ${events - 1} by ${batch} loop
        with made as (
          select i, outbox.uuid_v7() as event_id, a.id, a.key, i / ${aggregates} + 1 as sequence, p.data
            from generate_series(low, least(low + ${batch}, ${events}) - 1) i
            join bench_aggregate a on a.n = i % ${aggregates}
           cross join bench_payload p
        ), written as (
          insert into outbox.event (id, aggregate_type, aggregate_id, sequence, type, schema_version, data, metadata, occurred_at)
          select event_id, 'thing', id, sequence, 'thing.happened', 1, data, null, now() from made
        )
        insert into outbox.delivery (event_id, destination, partition, aggregate_key, sequence, bytes, created_at, state, published_at, message_id)
        select event_id, ${destination}, get_byte(uuid_send(key), 0) & 63, key, sequence, ${sampleBytes},
               clock_timestamp() - ${ageDays} * interval '1 day', '${state}',
               ${state === 'published' ? `clock_timestamp() - ${ageDays} * interval '1 day', gen_random_uuid()::text` : 'null, null'}
          from made
         order by i;
        commit;
      end loop;
    end $$`);
  await client.query('drop table bench_aggregate, bench_payload');
  await client.query('reset synchronous_commit');
}

function event(aggregateId: string, bytes: number): Record<string, unknown> {
  return {
    type: 'thing.happened',
    aggregate_type: 'thing',
    aggregate_id: aggregateId,
    data: { text: 'x'.repeat(bytes) },
  };
}

/**
 * Compares a preloaded event with an appended one, column by column; ids, positions, transaction ids and times aside.
 *
 * @throws Error naming the columns that differ.
 */
export async function preloadEqualsAppend(client: pg.Client): Promise<void> {
  await preload(client, { events: 1, aggregates: 1, bytes: 1000, prefix: 'check' });
  const read = async (): Promise<Record<string, unknown>> => {
    const { rows } = await client.query(
      `select to_jsonb(e) || jsonb_build_object('data', e.data::jsonb) || to_jsonb(d) || to_jsonb(s) as it
         from outbox.event e
         join outbox.delivery d on d.event_id = e.id
         join outbox.stream s on s.aggregate_type = e.aggregate_type and s.aggregate_id = e.aggregate_id
        where e.aggregate_id = 'check-000000'`,
    );
    return rows[0].it;
  };
  const preloaded = await read();
  await client.query(`delete from outbox.event; delete from outbox.delivery; delete from outbox.stream`);
  await client.query('select outbox.append($1)', [JSON.stringify([event('check-000000', 1000)])]);
  const appended = await read();
  await client.query(`delete from outbox.event; delete from outbox.delivery; delete from outbox.stream`);
  const ignored = new Set(['id', 'event_id', 'position', 'xid', 'created_at', 'occurred_at']);
  const different = Object.keys(appended).filter(
    (column) => !ignored.has(column) && JSON.stringify(appended[column]) !== JSON.stringify(preloaded[column]),
  );
  if (different.length > 0) throw new Error(`preload writes other rows than append: ${different.join(', ')}`);
}
