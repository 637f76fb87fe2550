import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { type Figure, quantile } from '../harness/figure.ts';
import { BYTES } from '../harness/messages.ts';
import { preload } from '../harness/preload.ts';
import { startQueue } from '../harness/queue.ts';
import { startRelay } from '../harness/relay.ts';
import { untilAccepted } from '../harness/writers.ts';

/** When the others' events reach the queue, counted from the relay's start; the hot aggregate's are older than all of them. */
async function othersP99(bench: Bench, hotEvents: number, others: number): Promise<number> {
  const database = await bench.server.database();
  const queue = await startQueue();
  try {
    const owner = await database.connect('postgres');
    if (hotEvents > 0) await preload(owner, { events: hotEvents, aggregates: 1, bytes: BYTES, prefix: 'hot' });
    await preload(owner, { events: others, aggregates: others, bytes: BYTES });
    await owner.query('vacuum analyze outbox.delivery, outbox.event');
    await queue.reset(true);
    const relay = startRelay(bench, database, queue, 'continuous');
    let times: number[] = [];
    for (let target = others; times.length < others; target += 50) {
      await untilAccepted(queue, Math.min(target, others + hotEvents));
      times = (await queue.arrivals()).filter(([, group]) => group.startsWith('thing-')).map(([, , at]) => at);
    }
    const { startedAt } = await relay.stop();
    return quantile(times, 0.99) - startedAt;
  } finally {
    await queue.stop();
    await database.drop();
  }
}

async function run(bench: Bench): Promise<Figure[]> {
  const size = sized(bench, 10_000);
  const alone = await othersP99(bench, 0, size);
  const beside = await othersP99(bench, size, size);
  return [
    {
      name: 'the others’ p99 beside a hot aggregate',
      value: beside / alone,
      unit: '× without it',
      goal: { atMost: 1.2 },
    },
    { name: '  with it', value: beside, unit: 'ms' },
    { name: '  without it', value: alone, unit: 'ms' },
  ];
}

export const hotAggregate: Benchmark = {
  name: 'hot-aggregate',
  what: 'one aggregate with 10,000 pending events beside 10,000 others',
  minutes: 0.7,
  run,
};
