import type { Bench, Benchmark } from '../harness/benchmark.ts';
import { type Figure, median, quantile } from '../harness/figure.ts';
import { type BenchQueue, startQueue } from '../harness/queue.ts';
import { type RunningRelay, startRelay } from '../harness/relay.ts';
import type { BenchDatabase } from '../harness/server.ts';
import { latencies, untilAccepted, write } from '../harness/writers.ts';

const RATE = 800;
/** 50 a second to one aggregate; one at a time it could take about 100. */
const HOT_EVERY = 16;
const KEEPS_UP_MS = 500;

interface Phase {
  /** Events that reached the queue while the writers ran, a second. */
  readonly rate: number;
  readonly fetchP99: number;
  /** Of the hot aggregate, commit → queue. */
  readonly hotMs: number;
  /** Versions of deliveries that cannot be removed: what the pin is for. */
  readonly dead: number;
}

async function phase(database: BenchDatabase, queue: BenchQueue, relay: RunningRelay, seconds: number): Promise<Phase> {
  await queue.reset(true);
  await relay.fetchTimes();
  const written = await write(database, { rate: RATE, seconds, hotEvery: HOT_EVERY });
  const { accepted } = await queue.counts();
  const fetchMs = await relay.fetchTimes();
  await untilAccepted(queue, written.length);
  const hot = latencies(written, await queue.arrivals(), 'thing-hot');
  const admin = await database.connect('postgres');
  const { rows } = await admin.query(
    `select n_dead_tup::integer as dead from pg_stat_all_tables where relid = 'outbox.delivery'::regclass`,
  );
  await admin.end();
  return { rate: accepted / seconds, fetchP99: quantile(fetchMs, 0.99), hotMs: median(hot), dead: rows[0].dead };
}

/** How long the first fetch of a new relay takes that finds something. Milliseconds. */
async function coldStart(bench: Bench, database: BenchDatabase, queue: BenchQueue): Promise<number> {
  await queue.reset();
  const written = await write(database, { rate: 500, seconds: 1 });
  const relay = startRelay(bench, database, queue, 'continuous', 'cold');
  await untilAccepted(queue, written.length);
  const [first] = await relay.fetchTimes();
  await relay.stop();
  return first ?? Number.NaN;
}

async function run(bench: Bench): Promise<Figure[]> {
  const seconds = bench.quick ? 20 : 180;
  const database = await bench.server.database();
  const queue = await startQueue();
  try {
    const start = (): RunningRelay => startRelay(bench, database, queue, 'continuous');
    let relay = start();
    await untilAccepted(queue, (await write(database, { rate: RATE, seconds: 3 })).length);
    bench.note('without a pin');
    const free = await phase(database, queue, relay, bench.quick ? 16 : 70);

    bench.note('under a held snapshot');
    const reader = await database.connect('postgres');
    await reader.query('begin isolation level repeatable read');
    await reader.query('select count(*) from outbox.destination');
    const snapshot = await phase(database, queue, relay, seconds);
    await relay.stop();
    bench.note('a new relay under the held snapshot');
    const cold = await coldStart(bench, database, queue);
    await reader.query('rollback');

    bench.note('under an open transaction that has appended');
    relay = start();
    const writer = await database.connect('sealed_writer');
    await writer.query('begin');
    await writer.query('select outbox.append($1)', [
      '[{"type": "thing.happened", "aggregate_type": "thing", "aggregate_id": "pin", "data": {}}]',
    ]);
    const open = await phase(database, queue, relay, seconds);
    await writer.query('rollback');
    await relay.stop();

    // Then it waits for its turn and not for the relay, and the ratio compares two backlogs.
    if (free.hotMs > KEEPS_UP_MS) {
      bench.note(
        `the hot aggregate fell behind even without a pin (${Math.round(free.hotMs)} ms): the machine is busy`,
      );
    }
    const compare = (what: string, pinned: Phase): Figure[] => [
      {
        name: `${what}: throughput`,
        value: (100 * pinned.rate) / free.rate,
        unit: '% of unpinned',
        goal: { atLeast: 98 },
      },
      { name: '  fetch p99', value: pinned.fetchP99 / free.fetchP99, unit: '× unpinned', goal: { atMost: 1.2 } },
      {
        name: '  hot aggregate, commit → queue',
        value: pinned.hotMs / free.hotMs,
        unit: '× unpinned',
        goal: { atMost: 2 },
      },
      { name: '  dead versions of deliveries at the end', value: pinned.dead, unit: '' },
    ];
    return [
      ...compare('pinned snapshot', snapshot),
      { name: '  cold start: first fetch', value: cold, unit: 'ms', goal: { atMost: 100 } },
      ...compare('pinned writer', open),
      { name: 'unpinned: throughput', value: free.rate, unit: 'events/s' },
      { name: '  fetch p99', value: free.fetchP99, unit: 'ms' },
      { name: '  hot aggregate, commit → queue', value: free.hotMs, unit: 'ms' },
    ];
  } finally {
    await queue.stop();
    await database.drop();
  }
}

export const pinned: Benchmark = {
  name: 'pinned',
  what: 'a snapshot, then a writing transaction, held for 3 minutes at 800 events/s',
  minutes: 8,
  run,
};
