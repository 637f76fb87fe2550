import type pg from 'pg';
import { v7 as uuidv7 } from 'uuid';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import type { Figure } from '../harness/figure.ts';
import { AGGREGATES, BYTES } from '../harness/messages.ts';
import { BARE_INSERT, ONE_TABLE_OUTBOX } from '../harness/one-table-outbox.ts';
import { startQueue } from '../harness/queue.ts';
import { drain } from '../harness/relay.ts';

/** Marked as often as a relay that sends ten calls of ten would. */
const MARK_BATCH = 100;
const WRITERS = 4;

/** Bytes of WAL that `work` causes; full-page images included, as after every checkpoint. */
async function walOf(admin: pg.Client, work: () => Promise<void>): Promise<number> {
  await admin.query('checkpoint');
  const { rows: before } = await admin.query('select pg_current_wal_insert_lsn() as lsn');
  await work();
  const { rows: after } = await admin.query('select pg_current_wal_insert_lsn() - $1::pg_lsn as bytes', [
    before[0].lsn,
  ]);
  return Number(after[0].bytes);
}

async function inParallel(
  clients: readonly pg.Client[],
  count: number,
  one: (client: pg.Client, n: number) => unknown,
) {
  let next = 0;
  await Promise.all(
    clients.map(async (client) => {
      while (next < count) {
        const n = next;
        next += 1;
        await one(client, n);
      }
    }),
  );
}

async function run(bench: Bench): Promise<Figure[]> {
  const events = sized(bench, 50_000);
  const aggregates = sized(bench, AGGREGATES);
  const database = await bench.server.database();
  const queue = await startQueue(0);
  try {
    const admin = await database.connect('postgres');
    await admin.query(ONE_TABLE_OUTBOX);
    const writers = await Promise.all(Array.from({ length: WRITERS }, () => database.connect('sealed_writer')));
    const data = { text: 'x'.repeat(BYTES) };
    const aggregate = (n: number): string => `thing-${String(n % aggregates).padStart(6, '0')}`;
    const ours = await walOf(admin, async () => {
      await inParallel(writers, events, (client, n) =>
        client.query('select outbox.append($1)', [
          JSON.stringify([
            { id: uuidv7(), type: 'thing.happened', aggregate_type: 'thing', aggregate_id: aggregate(n), data },
          ]),
        ]),
      );
      await drain(bench, database, queue);
    });
    const oneTable = await walOf(admin, async () => {
      const ids: string[] = [];
      await inParallel(writers, events, (client, n) => {
        const id = uuidv7();
        ids.push(id);
        return client.query(BARE_INSERT, [id, 'thing', aggregate(n), 'thing.happened', JSON.stringify(data)]);
      });
      for (let n = 0; n < ids.length; n += MARK_BATCH) {
        await admin.query('update one_table_outbox set processed_at = now() where id = any ($1)', [
          ids.slice(n, n + MARK_BATCH),
        ]);
      }
    });
    return [
      { name: 'WAL, append to settled ÷ one table', value: (100 * ours) / oneTable, unit: '%', goal: { atMost: 85 } },
      { name: '  append to settled', value: ours / events, unit: 'bytes/event' },
      { name: '  one table, insert and mark', value: oneTable / events, unit: 'bytes/event' },
    ];
  } finally {
    await queue.stop();
    await database.drop();
  }
}

export const wal: Benchmark = {
  name: 'wal',
  what: 'WAL per event, append to settled, against a one-table outbox',
  minutes: 2,
  run,
};
