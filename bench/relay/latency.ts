import { coresInUse } from '../harness/cores.ts';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { type Figure, quantile } from '../harness/figure.ts';
import { startQueue } from '../harness/queue.ts';
import { startRelay } from '../harness/relay.ts';
import { latencies, untilAccepted, write } from '../harness/writers.ts';

/**
 * The queue receives an event 8 ms before it has accepted it, so from commit to receipt is what the relay adds to the
 * queue's own answer time.
 */
async function atRate(bench: Bench, rate: number): Promise<Figure[]> {
  const database = await bench.server.database();
  const queue = await startQueue();
  try {
    const relay = startRelay(bench, database, queue, 'continuous');
    // Leases, plans and the JIT of both processes settle first.
    await untilAccepted(queue, (await write(database, { rate, seconds: 3 })).length);
    await queue.reset(true);
    const cores = coresInUse();
    const written = await write(database, { rate, seconds: sized(bench, 100), lateShare: 0.02 });
    const inUse = cores();
    await untilAccepted(queue, written.length);
    const times = latencies(written, await queue.arrivals());
    const { orderBreaks } = await queue.counts();
    await relay.stop();
    return [
      { name: `commit → queue, ${rate}/s, p50`, value: quantile(times, 0.5), unit: 'ms', goal: { atMost: 12 } },
      { name: `commit → queue, ${rate}/s, p99`, value: quantile(times, 0.99), unit: 'ms', goal: { atMost: 40 } },
      { name: '  events', value: times.length, unit: '' },
      { name: '  cores in use', value: inUse, unit: '' },
      { name: '  order breaks', value: orderBreaks, unit: '', goal: { atMost: 0 } },
    ];
  } finally {
    await queue.stop();
    await database.drop();
  }
}

export const latency: Benchmark = {
  name: 'latency',
  what: 'commit → accepted beyond the queue’s own time, 2 % of the writers committing 50 ms late',
  minutes: 4,
  run: async (bench) => [...(await atRate(bench, 200)), ...(await atRate(bench, 2000))],
};
