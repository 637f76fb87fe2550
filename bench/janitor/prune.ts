import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { type Figure, median, quantile } from '../harness/figure.ts';
import { AGGREGATES, BYTES } from '../harness/messages.ts';
import { preload } from '../harness/preload.ts';
import { type BenchQueue, startQueue } from '../harness/queue.ts';
import { startRelay } from '../harness/relay.ts';
import type { BenchDatabase } from '../harness/server.ts';
import { latencies, untilAccepted, write, type Written } from '../harness/writers.ts';
import { runJanitorProcess } from './janitor.ts';

const RATE = 800;
const OLD = 1_000_000;
/** What the goal allows: the load lasts as long. */
const SLOWEST = 5_000;
const AGE_DAYS = 30;
const KEEP_SECONDS = 14 * 86_400;
const LOOK_MS = 10;

/** Load, and how long each event took from its commit to the queue. */
async function load(
  database: BenchDatabase,
  queue: BenchQueue,
  seconds: number,
): Promise<{ written: Written[]; took: (of: readonly Written[]) => number[] }> {
  await queue.reset(true);
  const written = await write(database, { rate: RATE, seconds });
  await untilAccepted(queue, written.length);
  const arrivals = await queue.arrivals();
  return { written, took: (of) => latencies(of, arrivals) };
}

/** Looks for whoever waits for a lock until it is told to stop; the longest wait that it saw. Milliseconds. */
function watchLocks(admin: pg.Client): () => Promise<number> {
  let longest = 0;
  const told = new AbortController();
  const watch = async (): Promise<void> => {
    while (!told.signal.aborted) {
      const { rows } = await admin.query(
        `select coalesce(max(extract(epoch from clock_timestamp() - waitstart)) * 1000, 0)::float8 as ms from pg_locks where not granted`,
      );
      longest = Math.max(longest, rows[0].ms);
      await delay(LOOK_MS);
    }
  };
  const ended = watch();
  return async () => {
    told.abort();
    await ended;
    return longest;
  };
}

async function run(bench: Bench, archived: boolean): Promise<Figure[]> {
  const events = sized(bench, OLD);
  const seconds = Math.ceil(events / SLOWEST);
  const database = await bench.server.database();
  const queue = await startQueue();
  const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-archive-'));
  try {
    const admin = await database.connect('postgres');
    bench.note(`${events.toLocaleString('en-US')} old events`);
    await preload(admin, { events, aggregates: AGGREGATES, bytes: BYTES, state: 'published', ageDays: AGE_DAYS });
    await admin.query('vacuum analyze outbox.event, outbox.delivery');
    await admin.query('checkpoint');
    const relay = startRelay(bench, database, queue, 'continuous');
    await untilAccepted(queue, (await write(database, { rate: RATE, seconds: 5 })).length);

    bench.note('without a janitor');
    const before = await load(database, queue, Math.ceil(seconds / 2));
    bench.note('with one');
    const stopWatching = watchLocks(await database.connect('postgres'));
    const pruning = runJanitorProcess(database, {
      keepSeconds: KEEP_SECONDS,
      archiveDirectory: archived ? directory : undefined,
    });
    const during = await load(database, queue, seconds);
    const janitor = await pruning;
    const longestWait = await stopWatching();
    bench.note('without one again');
    const after = await load(database, queue, Math.ceil(seconds / 2));
    await relay.stop();

    const { rows } = await admin.query('select count(*)::integer as left from outbox.event');
    const fresh = before.written.length + during.written.length + after.written.length;
    if (rows[0].left < fresh) throw new Error(`${rows[0].left} events are left: fewer than the ${fresh} young ones`);
    const without = [...before.took(before.written), ...after.took(after.written)];
    const withJanitor = during.took(
      during.written.filter(([, at]) => at >= janitor.startedAt && at <= janitor.endedAt),
    );
    const deleted = janitor.removed['event'] ?? 0;
    if (deleted !== events) throw new Error(`${deleted} events were deleted, not ${events}`);
    const elapsed = (janitor.endedAt - janitor.startedAt) / 1000;
    return [
      {
        name: 'commit → queue while pruning, p99',
        value: quantile(withJanitor, 0.99) / quantile(without, 0.99),
        unit: '× without',
        goal: { atMost: 1.2 },
      },
      { name: 'events deleted', value: deleted / elapsed, unit: '/s', goal: { atLeast: SLOWEST } },
      { name: 'longest wait for a lock', value: longestWait, unit: 'ms', goal: { atMost: 50 } },
      { name: '  p99 while pruning', value: quantile(withJanitor, 0.99), unit: 'ms' },
      { name: '  p99 without', value: quantile(without, 0.99), unit: 'ms' },
      { name: '  p50 while pruning', value: median(withJanitor), unit: 'ms' },
      { name: '  p50 without', value: median(without), unit: 'ms' },
      { name: '  processor of the janitor', value: janitor.cpuSeconds / elapsed, unit: 'cores' },
      ...(archived
        ? [{ name: '  archive', value: janitor.archivedBytes / deleted, unit: 'bytes/event' } satisfies Figure]
        : []),
    ];
  } finally {
    await queue.stop();
    await database.drop();
    rmSync(directory, { recursive: true, force: true });
  }
}

export const prune: Benchmark = {
  name: 'prune',
  what: 'a million old events deleted beside 800 new ones a second',
  minutes: 9,
  run: (bench) => run(bench, false),
};

export const archive: Benchmark = {
  name: 'archive',
  what: 'the same, each page written to an archive in a folder before',
  minutes: 9,
  run: (bench) => run(bench, true),
};
