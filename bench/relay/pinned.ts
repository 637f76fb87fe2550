import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { type Figure, median, quantile } from '../harness/figure.ts';
import { type BenchQueue, startQueue } from '../harness/queue.ts';
import { type RunningRelay, startRelay } from '../harness/relay.ts';
import type { BenchDatabase } from '../harness/server.ts';
import { latencies, untilAccepted, write } from '../harness/writers.ts';

const RATE = 800;
/** 50 a second to one aggregate; one at a time it could take about 100. */
const HOT_EVERY = 16;

interface Phase {
  /** Events that reached the queue while the writers ran, a second. */
  readonly rate: number;
  readonly fetchP99: number;
  /** Of the hot aggregate, commit → queue. */
  readonly hotMs: number;
}

async function phase(database: BenchDatabase, queue: BenchQueue, relay: RunningRelay, seconds: number): Promise<Phase> {
  await queue.reset(true);
  await relay.fetchTimes();
  const written = await write(database, { rate: RATE, seconds, hotEvery: HOT_EVERY });
  const { accepted } = await queue.counts();
  const fetchMs = await relay.fetchTimes();
  await untilAccepted(queue, written.length);
  const hot = latencies(written, await queue.arrivals(), 'thing-hot');
  return { rate: accepted / seconds, fetchP99: quantile(fetchMs, 0.99), hotMs: median(hot) };
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
    const free = await phase(database, queue, relay, sized({ quick: bench.quick }, 60) + 10);

    const reader = await database.connect('postgres');
    await reader.query('begin isolation level repeatable read');
    await reader.query('select count(*) from outbox.destination');
    const snapshot = await phase(database, queue, relay, seconds);
    await relay.stop();
    const cold = await coldStart(bench, database, queue);
    await reader.query('rollback');

    relay = start();
    const writer = await database.connect('sealed_writer');
    await writer.query('begin');
    await writer.query('select outbox.append($1)', [
      '[{"type": "thing.happened", "aggregate_type": "thing", "aggregate_id": "pin", "data": {}}]',
    ]);
    const open = await phase(database, queue, relay, seconds);
    await writer.query('rollback');
    await relay.stop();

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
  run,
};
