import type pg from 'pg';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { testDatabase } from '../../support/database.ts';
import { append, installCatalogue, thing } from '../../support/outbox.ts';
import { letAge } from '../../support/retention.ts';

const OUTBOX = ['outbox.delivery', 'outbox.event'];
const INBOX = ['inbox.processed_event'];
const names = (tables: readonly string[]): string => tables.map((table) => `'${table}'::regclass`).join(', ');
const ALL = names([...OUTBOX, ...INBOX]);
const INDEXES = `(select indexrelid from pg_index where indrelid in (${ALL}))`;
const FORGET = `delete from pg_statistic where starelid in (${ALL})`;
const COUNTS = `update pg_class set reltuples = $1, relpages = $2 where oid in (${ALL}) or oid in ${INDEXES}`;

/** What the planner is told of 10,000 events: rows and pages, or that it may look. */
const STATISTICS: Readonly<Record<string, readonly [number, number] | null>> = {
  fresh: null,
  missing: [-1, 0],
  'of an empty table': [0, 1],
  'of ten billion rows': [1e10, 1_000_000],
};

const EVENTS = 10_000;
const PAGE = 100;

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
let admin: pg.Client;

beforeAll(async () => {
  admin = await database.superuser();
  await installCatalogue(owner, [{ type: 'thing.happened' }, { type: 'thing.silent', destinations: [] }]);
  const writer = await database.client('sealed_writer');
  for (let from = 0; from < EVENTS; from += 1000) {
    await append(writer, ...Array.from({ length: 1000 }, (_, i) => thing(`thing-${(from + i) % 5000}`)));
  }
  for (const table of [...OUTBOX, ...INBOX]) await owner.query(`alter table ${table} set (autovacuum_enabled = off)`);
  // Half of them wait for ever: whoever looks for them among all of these would read thousands of rows.
  await owner.query(
    `update outbox.delivery set state = case when position % 2 = 0 then 'published' else 'parked' end::outbox.delivery_state, published_at = now()`,
  );
  await letAge(owner, 100);
  await owner.query(
    `insert into inbox.processed_event
     select c, e.id, now() - interval '100 days' from outbox.event e, unnest(array['a', 'b', 'c']) c`,
  );
  await owner.query('vacuum outbox.delivery, outbox.event, inbox.processed_event');
});

describe.each(Object.entries(STATISTICS))('with statistics %s', (_, counts) => {
  beforeEach(async () => {
    if (counts === null) {
      for (const table of [...OUTBOX, ...INBOX]) await admin.query(`analyze ${table}`);
      return;
    }
    await admin.query(FORGET);
    await admin.query(COUNTS, [...counts]);
  });

  /** Whole tables, and rows of each index, that a call reads; everything is as it was afterwards. */
  async function readBy(sql: string, values: readonly unknown[]) {
    const client = await database.client('sealed_janitor');
    await client.query(`set statement_timeout = '20s'`);
    const look = async () => {
      const { rows } = await client.query(`
        select (select sum(pg_stat_get_xact_numscans(c.oid))::integer from pg_class c where c.oid in (${ALL})) as tables,
               pg_stat_get_xact_tuples_returned('outbox.delivery_pkey'::regclass)::integer as deliveries,
               pg_stat_get_xact_tuples_returned('outbox.delivery_chain'::regclass)::integer as chain,
               pg_stat_get_xact_tuples_returned('outbox.event_pkey'::regclass)::integer as events,
               pg_stat_get_xact_tuples_returned('inbox.processed_event_pkey'::regclass)::integer as processed`);
      return rows[0] as Record<'tables' | 'deliveries' | 'chain' | 'events' | 'processed', number>;
    };
    await client.query('begin');
    const before = await look();
    const { rows } = await client.query(sql, [...values]);
    const after = await look();
    await client.query('rollback');
    await client.end();
    return {
      rows,
      read: Object.fromEntries(
        Object.entries(after).map(([name, n]) => [name, n - before[name as keyof typeof before]]),
      ),
    };
  }

  it('like case 27: pruning the outbox reads its page and what is around it, never a whole table', async () => {
    const { rows, read } = await readBy(`select * from outbox.prune('0', '10 days', $1)`, [PAGE]);
    expect(rows[0]).toMatchObject({ more: true, events: expect.toSatisfy((n: number) => n >= PAGE / 2) });
    expect(read['tables']).toBe(0);
    // The page twice, 500 behind it, and each that goes.
    expect(read['deliveries']).toBeLessThan(2 * PAGE + 500 + 2 * PAGE);
    expect(read['chain']).toBeLessThanOrEqual(2 * PAGE);
    expect(read['events']).toBeLessThanOrEqual(PAGE);
  });

  it('like case 27: and so does reading it for the archive', async () => {
    const { rows, read } = await readBy(`select * from outbox.archivable('0', '10 days', $1)`, [PAGE]);
    expect(rows).toHaveLength(PAGE / 2);
    expect(read['tables']).toBe(0);
    expect(read['deliveries']).toBeLessThan(2 * PAGE + 500 + 2 * PAGE);
    expect(read['events']).toBeLessThanOrEqual(PAGE);
  });

  it('like case 27: events without routes are walked along their ids', async () => {
    const { rows, read } = await readBy(
      `select * from outbox.prune_unrouted('00000000-0000-0000-0000-000000000000', '0', $1)`,
      [PAGE],
    );
    expect(rows[0]).toMatchObject({ more: true, events: 0 });
    expect(read).toMatchObject({ tables: 0, events: expect.toSatisfy((n: number) => n <= 2 * PAGE + 1) });
  });

  it('like case 27: and so are those that may have been written before their type had its route', async () => {
    await owner.query(`update outbox.event_type set routed_since = now()`);
    await owner.query(
      `update outbox.walk set mark = (select max(position) from outbox.delivery) where name = 'deliveries'`,
    );
    const { rows, read } = await readBy(
      `select * from outbox.prune_unrouted('00000000-0000-0000-0000-000000000000', '0', $1)`,
      [PAGE],
    );
    await owner.query(`update outbox.event_type set routed_since = null`);
    await owner.query(`update outbox.walk set mark = '0' where name = 'deliveries'`);
    // Each has a delivery that the walk along these has left behind.
    expect(rows[0]).toMatchObject({ more: true, events: 0 });
    expect(read['tables']).toBe(0);
    expect(read['deliveries']).toBeLessThanOrEqual(EVENTS);
    expect(read['events']).toBeLessThanOrEqual(2 * PAGE + 1);
  });

  it('like case 27: dedupe rows are walked along their key, from consumer to consumer', async () => {
    const sweep = (sweeping: boolean) =>
      owner.query(
        `insert into inbox.walk (consumer, sweeping) values ('b', $1) on conflict (consumer) do update set sweeping = $1`,
        [sweeping],
      );
    await sweep(false);
    const { rows, read } = await readBy(
      `select * from inbox.prune('b', '00000000-0000-0000-0000-000000000000', '10 days', $1)`,
      [PAGE],
    );
    expect(rows[0]).toMatchObject({ more: false, processed: 0 });
    await sweep(true);
    const swept = await readBy(
      `select * from inbox.prune('b', '00000000-0000-0000-0000-000000000000', '10 days', $1)`,
      [PAGE],
    );
    expect(swept.rows[0]).toMatchObject({ more: true, processed: PAGE });
    for (const it of [read, swept.read])
      expect(it).toMatchObject({ tables: 0, processed: expect.toSatisfy((n: number) => n <= 2 * PAGE) });
    const consumers = await readBy('select * from inbox.pruned_consumers()', []);
    expect(consumers.rows).toHaveLength(3);
    expect(consumers.read).toMatchObject({ tables: 0, processed: expect.toSatisfy((n: number) => n <= 4) });
  });
});
