import { beforeAll, describe, expect, it } from 'vitest';
import { testDatabase } from '../support/database.ts';
import { append, installCatalogue, thing } from '../support/outbox.ts';

const TABLES = `('outbox.delivery'::regclass, 'outbox.event'::regclass)`;
const INDEXES = `(select indexrelid from pg_index where indrelid in ${TABLES})`;
const FORGET = `delete from pg_statistic where starelid in ${TABLES}`;

const STATISTICS: Readonly<Record<string, readonly string[]>> = {
  fresh: ['analyze outbox.delivery', 'analyze outbox.event'],
  missing: [FORGET, `update pg_class set reltuples = -1, relpages = 0 where oid in ${TABLES} or oid in ${INDEXES}`],
  'of an empty table': [
    FORGET,
    `update pg_class set reltuples = 0, relpages = 1 where oid in ${TABLES} or oid in ${INDEXES}`,
  ],
  'of ten billion rows': [
    FORGET,
    `update pg_class set reltuples = 1e10, relpages = 1000000 where oid in ${TABLES} or oid in ${INDEXES}`,
  ],
};

/** Rows that a fetch asks for, of 10,000 that there are. */
const PAGE = 10;
/** A row costs a walk down its index, whose three levels are pages, and its own page; the rest is for the two scans and the catalogue. */
const MOST_PAGES = PAGE * 4 + 40;

const database = await testDatabase();
const owner = database.pool('sealed_migrator');

beforeAll(async () => {
  await installCatalogue(owner);
  const writer = await database.client('sealed_writer');
  for (let from = 0; from < 10_000; from += 1000) {
    await append(
      writer,
      ...Array.from({ length: 1000 }, (_, i) => thing(`thing-${(from + i) % 5000}`, { text: 'x'.repeat(200) })),
    );
  }
  await owner.query('alter table outbox.delivery set (autovacuum_enabled = off)');
  await owner.query('alter table outbox.event set (autovacuum_enabled = off)');
  await owner.query(`update outbox.delivery set state = 'published' where position % 2 = 0`);
  await owner.query('vacuum outbox.delivery, outbox.event');
});

describe.each(Object.entries(STATISTICS))('with statistics %s', (_, sql) => {
  /** Pages that one call reads in a connection that has planned it before. */
  async function pagesOf(call: string, values: readonly unknown[]): Promise<number> {
    const admin = await database.superuser();
    for (const statement of sql) await admin.query(statement);
    const relay = await database.client('sealed_relay');
    // A bad plan would be slow, too: it fails here rather than at the end of the test's time.
    await relay.query(`set statement_timeout = '10s'`);
    const { rows: found } = await relay.query(`select * from ${call}`, [...values]);
    expect(found.length).toBeGreaterThanOrEqual(PAGE);
    const { rows } = await relay.query(`explain (analyze, buffers, timing off, format json) select * from ${call}`, [
      ...values,
    ]);
    const { Plan } = rows[0]['QUERY PLAN'][0];
    return Plan['Shared Hit Blocks'] + Plan['Shared Read Blocks'];
  }

  it.each([true, false])('a scan reads little more than it returns (ordered: %s)', async (ordered) => {
    const partitions = Array.from({ length: 64 }, (_, number) => number);
    const values = [1, ordered, partitions, '0', '0', [], [], [], [], PAGE, 20, '{}'];
    expect(await pagesOf('outbox.find($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)', values)).toBeLessThan(
      MOST_PAGES,
    );
  });

  it('events are read by their ids alone', async () => {
    const { rows } = await owner.query(
      `select array_agg(id) as ids from (select id from outbox.event order by md5(id::text) limit ${PAGE}) e`,
    );
    expect(await pagesOf('outbox.load($1)', [rows[0].ids])).toBeLessThan(MOST_PAGES);
  });
});
