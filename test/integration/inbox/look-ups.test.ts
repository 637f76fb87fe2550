import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { testDatabase } from '../../support/database.ts';

const database = await testDatabase();
const MANY = 2_000;

/** More than the three events of a test could need, by far fewer than there are. */
const FEW = 100;

/** Rows of each table of the inbox that this connection has looked at, in this transaction and perhaps in some before it. */
async function lookedAt(client: pg.ClientBase): Promise<Record<string, number>> {
  const { rows } = await client.query(
    `select relname as name, (seq_tup_read + coalesce(idx_tup_fetch, 0))::integer as rows
       from pg_stat_xact_user_tables where schemaname = 'inbox'`,
  );
  return Object.fromEntries(rows.map(({ name, rows: count }) => [name, count]));
}

describe('a consumer with many aggregates, none of which the planner knows of', () => {
  const pool = database.pool('sealed_ledger');

  beforeAll(async () => {
    await pool.query(
      `insert into inbox.consumer (name, mode, starting_point) values ('many', 'strict', 'beginning');
       insert into inbox.stream_position (consumer, aggregate_type, aggregate_id, sequence)
       select 'many', 'counter', 'c' || n, 1 from generate_series(1, ${MANY}) n;
       insert into inbox.processed_event (consumer, event_id, event_time)
       select 'many', gen_random_uuid(), now() from generate_series(1, ${MANY});
       insert into inbox.held_event (consumer, event_id, aggregate_type, aggregate_id, sequence, reason, body)
       select 'many', gen_random_uuid(), 'counter', 'c' || n, case when n = 3 then 2 else 3 end, 'gap', '{}'
         from generate_series(3, ${MANY}) n`,
    );
  });

  it.each([
    {
      what: 'takes the events of a batch',
      sql: `select outcome from inbox.take_any('many', 'strict', 'beginning', '35 days', $1)`,
      values: [
        JSON.stringify(
          ['c1', 'c2', 'c0'].map((subject) => ({
            id: randomUUID(),
            time: new Date().toISOString(),
            type: 'counter.added',
            aggregate: 'counter',
            subject,
            sequence: subject === 'c0' ? 1 : 2,
          })),
        ),
      ],
      outcomes: [{ outcome: 'apply' }, { outcome: 'apply' }, { outcome: 'apply' }],
    },
    {
      what: 'takes events that are all next',
      sql: `select case when inbox.take_next('many', 'strict', 'beginning', '35 days', $1, $2) > 0 then 'apply' end as outcome`,
      values: [
        JSON.stringify(
          ['c1', 'c2', 'c0'].map((subject) => ({
            aggregate: 'counter',
            subject,
            first: subject === 'c0' ? 1 : 2,
            last: subject === 'c0' ? 1 : 2,
          })),
        ),
        JSON.stringify(
          ['c1', 'c2', 'c0'].map((subject) => ({
            id: randomUUID(),
            time: new Date().toISOString(),
            aggregate: 'counter',
            subject,
          })),
        ),
      ],
      outcomes: [{ outcome: 'apply' }],
    },
    {
      what: 'takes out a held event',
      sql: `select verdict as outcome from inbox.take_held('many', 'strict', 'beginning', 'counter', $1, 25)`,
      values: ['c3'],
      outcomes: [{ outcome: 'apply' }],
    },
  ])('$what without looking at the rows of others', async ({ sql, values, outcomes }) => {
    const client = await pool.connect();
    try {
      await client.query('begin');
      expect((await client.query(sql, values)).rows).toEqual(outcomes);
      const rows = await lookedAt(client);
      expect(rows['stream_position']).toBeGreaterThan(0);
      expect(Object.entries(rows).filter(([, count]) => count > FEW)).toEqual([]);
    } finally {
      await client.query('rollback');
      client.release();
    }
  });
});
