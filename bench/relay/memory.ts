import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import type { Figure } from '../harness/figure.ts';
import { preload } from '../harness/preload.ts';
import { startQueue } from '../harness/queue.ts';
import { drain } from '../harness/relay.ts';

async function run(bench: Bench): Promise<Figure[]> {
  const events = sized(bench, 140_000);
  const database = await bench.server.database();
  const queue = await startQueue();
  try {
    const owner = await database.connect('postgres');
    bench.note(`preparing ${events.toLocaleString('en-US')} events of 100 KB`);
    await preload(owner, { events, aggregates: 10_000, bytes: 100_000 });
    await owner.query('vacuum analyze outbox.delivery, outbox.event');
    const relay = await drain(bench, database, queue);
    if (relay.report.published !== events) throw new Error(`published ${relay.report.published} of ${events}`);
    return [
      { name: 'peak RSS of the relay', value: relay.peakRssMb, unit: 'MB', goal: { atMost: 256 } },
      { name: '  events', value: events / relay.seconds, unit: 'events/s' },
    ];
  } finally {
    await queue.stop();
    await database.drop();
  }
}

export const memory: Benchmark = {
  name: 'memory',
  what: 'memory of the relay with 140,000 pending events of 100 KB',
  run,
};
