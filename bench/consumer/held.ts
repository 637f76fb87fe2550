import { setTimeout as delay } from 'node:timers/promises';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { startConsumer } from '../harness/consumer.ts';
import { coresInUse } from '../harness/cores.ts';
import { type Figure, quantile } from '../harness/figure.ts';

/** Batches of ten a second of other aggregates, in a sandbox of their own: 100 events/s. */
const OTHERS = { rate: 10, invoices: 100 };

async function run(bench: Bench): Promise<Figure[]> {
  const aggregates = sized(bench, 1000);
  const held = 100;
  const database = await bench.server.database();
  const consumer = await startConsumer(bench, database);
  const others = await startConsumer({ ...bench, profileDirectory: undefined }, database);
  try {
    const admin = await database.connect('postgres');
    for (const each of [consumer, others]) await each.batches({ variant: 'together', invoices: 200, events: 10 });
    await consumer.hold({ invoices: aggregates, events: held });
    await admin.query('vacuum analyze inbox.held_event, inbox.processed_event, inbox.stream_position');

    bench.note('others alone');
    await others.startSteady(OTHERS);
    await delay(bench.quick ? 5000 : 20_000);
    const alone = await others.endSteady();

    bench.note('the drain');
    await others.startSteady(OTHERS);
    const cores = coresInUse();
    const drained = await consumer.drain();
    const inUse = cores();
    const beside = await others.endSteady();

    bench.note('others beside live batches');
    await others.startSteady(OTHERS);
    const events = aggregates * (held + 1);
    const live = await consumer.batches({ variant: 'together', invoices: aggregates, events: bench.quick ? held : 30 });
    const besideLive = await others.endSteady();

    const compare = (times: readonly number[], share: number): number =>
      quantile(times, share) / quantile(alone, share);
    return [
      {
        name: 'held events drained',
        value: (aggregates * held) / drained.seconds,
        unit: 'events/s',
        goal: { atLeast: 2000 },
      },
      { name: '  live batches of the same sandbox', value: live.events / live.seconds, unit: 'events/s' },
      { name: '  CPU of the consumer, per 1,000 events', value: (drained.cpuSeconds * 1e6) / events, unit: 'ms' },
      {
        name: '  CPU of its server processes, per 1,000 events',
        value: (drained.serverCpuSeconds * 1e6) / events,
        unit: 'ms',
      },
      { name: '  round trips per 1,000 events', value: (drained.statements * 1000) / events, unit: '' },
      { name: '  batch that closes ten gaps, p50', value: quantile(drained.batchMs, 0.5), unit: 'ms' },
      { name: '  cores in use', value: inUse, unit: '' },
      { name: 'batches of others beside it, p50', value: compare(beside, 0.5), unit: '× alone', goal: { atMost: 1.2 } },
      { name: '  p99', value: compare(beside, 0.99), unit: '× alone' },
      { name: '  p50 beside live batches instead', value: compare(besideLive, 0.5), unit: '× alone' },
      { name: '  p99 beside live batches instead', value: compare(besideLive, 0.99), unit: '× alone' },
      { name: '  alone, p50', value: quantile(alone, 0.5), unit: 'ms' },
      { name: '  alone, p99', value: quantile(alone, 0.99), unit: 'ms' },
    ];
  } finally {
    await consumer.stop();
    await others.stop();
    await database.drop();
  }
}

export const held: Benchmark = {
  name: 'held',
  what: '100,000 held events of 1,000 aggregates whose gaps close; batches of others beside it',
  minutes: 3,
  run,
};
