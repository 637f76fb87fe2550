import { startReplay } from '../../shared/outbox/index.ts';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import type { Figure } from '../harness/figure.ts';
import { AGGREGATES, BYTES } from '../harness/messages.ts';
import { preload } from '../harness/preload.ts';
import { startQueue } from '../harness/queue.ts';
import { drain } from '../harness/relay.ts';

async function run(bench: Bench): Promise<Figure[]> {
  const events = sized(bench, 100_000);
  const database = await bench.server.database();
  const queue = await startQueue();
  try {
    const admin = await database.connect('postgres');
    await preload(admin, { events, aggregates: AGGREGATES, bytes: BYTES });
    await admin.query('vacuum analyze outbox.delivery, outbox.event');
    // The same events, first live and then replayed, by the same relay.
    const live = await drain(bench, database, queue);
    await admin.query('vacuum outbox.delivery');
    await queue.reset();
    const replay = { destination: 'queue', scope: { aggregateType: 'thing' }, perSecond: 100_000 };
    await startReplay(admin, replay, 'benchmark');
    const replayed = await drain(bench, database, queue);
    const counts = await queue.counts();
    for (const { report } of [live, replayed]) {
      if (report.published !== events) throw new Error(`published ${report.published} of ${events}`);
    }
    const { rows } = await admin.query(
      'select extract(epoch from planned_at - created_at)::float8 as planned, state from outbox.replay',
    );
    if (rows[0].state !== 'done') throw new Error(`the replay is ${rows[0].state}`);
    return [
      {
        name: 'replay ÷ live, with its plan',
        value: (100 * live.seconds) / replayed.seconds,
        unit: '%',
        goal: { atLeast: 50 },
      },
      { name: '  live', value: events / live.seconds, unit: 'events/s' },
      { name: '  replay', value: events / replayed.seconds, unit: 'events/s' },
      { name: '  of that the plan', value: rows[0].planned, unit: 's' },
      { name: 'SQL statements per 1,000 events', value: (replayed.statements * 1000) / events, unit: '' },
      { name: 'order breaks', value: counts.orderBreaks, unit: '', goal: { atMost: 0 } },
    ];
  } finally {
    await queue.stop();
    await database.drop();
  }
}

export const replay: Benchmark = {
  name: 'replay',
  what: '100,000 events published again, against the same relay sending them live',
  minutes: 1,
  run,
};
