import type pg from 'pg';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { timeFetches } from '../harness/fetch-under-test.ts';
import { type Figure, quantile } from '../harness/figure.ts';
import { AGGREGATES, BYTES } from '../harness/messages.ts';
import { preload } from '../harness/preload.ts';

const TABLES = `('outbox.delivery'::regclass, 'outbox.event'::regclass)`;
const INDEXES = `(select indexrelid from pg_index where indrelid in ${TABLES})`;
const FORGET = `delete from pg_statistic where starelid in ${TABLES}`;

/** What the planner believes. Falsified as the superuser: nothing else can. */
const STATES: readonly { readonly name: string; readonly sql: readonly string[] }[] = [
  { name: 'fresh statistics', sql: ['analyze outbox.delivery', 'analyze outbox.event'] },
  {
    name: 'no statistics',
    sql: [FORGET, `update pg_class set reltuples = -1, relpages = 0 where oid in ${TABLES} or oid in ${INDEXES}`],
  },
  {
    name: 'statistics of an almost empty table',
    sql: [
      FORGET,
      `update pg_class set reltuples = 1 where oid in ${TABLES} or oid in ${INDEXES}`,
      `update pg_class set relpages = 100000 where oid in ${TABLES}`,
    ],
  },
  {
    name: 'statistics of 10,000,000,000 rows',
    sql: [
      FORGET,
      `update pg_class set reltuples = 1e10, relpages = 1000000 where oid in ${TABLES} or oid in ${INDEXES}`,
    ],
  },
];

async function believe(admin: pg.Client, sql: readonly string[]): Promise<void> {
  for (const statement of sql) await admin.query(statement);
}

async function run(bench: Bench): Promise<Figure[]> {
  const database = await bench.server.database();
  try {
    const admin = await database.connect('postgres');
    await admin.query('alter table outbox.delivery set (autovacuum_enabled = off)');
    await admin.query('alter table outbox.event set (autovacuum_enabled = off)');
    const published = sized(bench, 5_000_000);
    const pending = sized(bench, 1_000_000);
    bench.note(
      `preparing ${published.toLocaleString('en-US')} published and ${pending.toLocaleString('en-US')} pending events`,
    );
    // The payload of what is published is never read; small, it spares gigabytes.
    await preload(admin, {
      events: published,
      aggregates: AGGREGATES,
      bytes: 10,
      state: 'published',
      prefix: 'past',
      batch: 1000,
    });
    await preload(admin, { events: pending, aggregates: AGGREGATES, bytes: BYTES });
    await admin.query('vacuum outbox.delivery, outbox.event');
    const figures: Figure[] = [];
    for (const { name, sql } of STATES) {
      await believe(admin, sql);
      // A new connection: it has planned nothing yet.
      const relay = await database.connect('sealed_relay');
      await relay.query(`set statement_timeout = '60s'`);
      bench.note(name);
      await timeFetches(relay, 5, 500);
      const times = await timeFetches(relay, sized(bench, 300), 500);
      figures.push(
        {
          name: `fetch of 500, ${name}: server p99`,
          value: quantile(times.server, 0.99),
          unit: 'ms',
          goal: { atMost: 5 },
        },
        { name: '  client p99', value: quantile(times.client, 0.99), unit: 'ms', goal: { atMost: 10 } },
        { name: '  server p50', value: quantile(times.server, 0.5), unit: 'ms' },
        { name: '  client p50', value: quantile(times.client, 0.5), unit: 'ms' },
      );
    }
    const relay = await database.connect('sealed_relay');
    const wide = await timeFetches(relay, sized(bench, 50), 1000, 20);
    figures.push({
      name: 'a scan of 1,000 aggregates, 20 events each looked up: client p50',
      value: quantile(wide.client, 0.5),
      unit: 'ms',
    });
    return figures;
  } finally {
    await database.drop();
  }
}

export const fetch: Benchmark = {
  name: 'fetch',
  what: 'a fetch of 500 with 1,000,000 pending and 5,000,000 published rows, four states of the statistics',
  minutes: 6,
  run,
};
