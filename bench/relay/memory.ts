import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import type { Figure } from '../harness/figure.ts';
import { preload } from '../harness/preload.ts';
import { startQueue } from '../harness/queue.ts';
import { startRelay } from '../harness/relay.ts';

/**
 * Where memory is plenty, Node.js collects garbage late: a relay that holds 80 MB then grows to 500. A limit makes it show what it needs, and one that
 * needs more ends with an error.
 */
const HEAP_MB = 128;
const LIMITED = [`--max-old-space-size=${HEAP_MB}`, '--max-semi-space-size=4'];

async function run(bench: Bench): Promise<Figure[]> {
  const events = sized(bench, 140_000);
  const database = await bench.server.database();
  const queue = await startQueue();
  try {
    const owner = await database.connect('postgres');
    bench.note(`preparing ${events.toLocaleString('en-US')} events of 100 KB`);
    await preload(owner, { events, aggregates: 10_000, bytes: 100_000 });
    await owner.query('vacuum analyze outbox.delivery, outbox.event');
    const relay = await startRelay(bench, database, queue, 'drain', 'bench', LIMITED).result;
    const { repeats } = await queue.counts();
    if (relay.report.published !== events) throw new Error(`published ${relay.report.published} of ${events}`);
    return [
      {
        name: `peak RSS of the relay, its heap limited to ${HEAP_MB} MB`,
        value: relay.peakRssMb,
        unit: 'MB',
        goal: { atMost: 256 },
      },
      { name: '  events', value: events / relay.seconds, unit: 'events/s' },
      { name: '  repeats', value: repeats, unit: '' },
    ];
  } finally {
    await queue.stop();
    await database.drop();
  }
}

export const memory: Benchmark = {
  name: 'memory',
  what: 'memory of the relay with 140,000 pending events of 100 KB',
  minutes: 6,
  run,
};
