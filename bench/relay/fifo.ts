import type { BareLoopStart } from '../bare-loop.ts';
import { coresInUse } from '../harness/cores.ts';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import type { Figure } from '../harness/figure.ts';
import { AGGREGATES, BYTES } from '../harness/messages.ts';
import { preload } from '../harness/preload.ts';
import { startChild } from '../harness/process.ts';
import { type BenchQueue, startQueue } from '../harness/queue.ts';
import { CALLS_IN_FLIGHT, drain } from '../harness/relay.ts';

/** What the SDK, or the relay's own call, does without a database: events a second, and milliseconds of CPU for a thousand of them. */
async function bareLoop(queue: BenchQueue, events: number, lean = false): Promise<{ rate: number; cpuMs: number }> {
  const child = startChild('bare-loop.ts');
  try {
    const { endpoint, queueUrl } = queue;
    const { seconds, cpuSeconds } = await child.ask<{ seconds: number; cpuSeconds: number }>('run', {
      queue: { endpoint, queueUrl },
      events,
      aggregates: AGGREGATES,
      bytes: BYTES,
      callsInFlight: CALLS_IN_FLIGHT,
      lean,
    } satisfies BareLoopStart);
    return { rate: events / seconds, cpuMs: (cpuSeconds * 1e6) / events };
  } finally {
    await child.stop();
  }
}

async function run(bench: Bench): Promise<Figure[]> {
  const events = sized(bench, 100_000);
  const database = await bench.server.database();
  const queue = await startQueue();
  try {
    const owner = await database.connect('postgres');
    await preload(owner, { events, aggregates: AGGREGATES, bytes: BYTES });
    await owner.query('vacuum analyze outbox.delivery, outbox.event');
    // Before and after, so that what else the machine does meets both.
    const before = await bareLoop(queue, events);
    await queue.reset();
    const cores = coresInUse();
    const relay = await drain(bench, database, queue);
    const inUse = cores();
    const counts = await queue.counts();
    const after = await bareLoop(queue, events);
    const own = await bareLoop(queue, events, true);
    if (relay.report.published !== events) throw new Error(`published ${relay.report.published} of ${events}`);
    const bare = (before.rate + after.rate) / 2;
    const bareCpuMs = (before.cpuMs + after.cpuMs) / 2;
    const cpuMs = (relay.cpuSeconds * 1e6) / events;
    const rate = events / relay.seconds;
    return [
      { name: 'one relay ÷ bare loop', value: (100 * rate) / bare, unit: '%', goal: { atLeast: 80 } },
      { name: '  one relay', value: rate, unit: 'events/s' },
      { name: '  bare loop of the SDK', value: bare, unit: 'events/s' },
      { name: '  CPU of the relay, per 1,000 events', value: cpuMs, unit: 'ms' },
      { name: '  CPU of the bare loop, per 1,000 events', value: bareCpuMs, unit: 'ms' },
      { name: '  bare loop of the relay’s own call', value: own.rate, unit: 'events/s' },
      { name: '  CPU of that, per 1,000 events', value: own.cpuMs, unit: 'ms' },
      { name: '  cores in use while the relay runs', value: inUse, unit: '' },
      { name: '  messages a call', value: counts.accepted / counts.calls, unit: '' },
      {
        name: 'SQL statements per 1,000 events',
        value: (relay.statements * 1000) / events,
        unit: '',
        goal: { atMost: 60 },
      },
      { name: 'order breaks', value: counts.orderBreaks, unit: '', goal: { atMost: 0 } },
      { name: 'repeats', value: counts.repeats, unit: '' },
    ];
  } finally {
    await queue.stop();
    await database.drop();
  }
}

export const fifo: Benchmark = {
  name: 'fifo',
  what: 'one relay and 100,000 pending events against a bare loop of the SDK; SQL statements',
  minutes: 1,
  run,
};
