import { coresInUse } from '../harness/cores.ts';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import type { Figure } from '../harness/figure.ts';
import { AGGREGATES, BYTES } from '../harness/messages.ts';
import { preload } from '../harness/preload.ts';
import { startQueue } from '../harness/queue.ts';
import { startRelay } from '../harness/relay.ts';

/** Events a second from the first call to the last answer, and the order breaks. */
async function rateOf(
  bench: Bench,
  relays: number,
  events: number,
): Promise<{ rate: number; inUse: number; orderBreaks: number }> {
  const database = await bench.server.database();
  const queue = await startQueue();
  try {
    const owner = await database.connect('postgres');
    await preload(owner, { events, aggregates: AGGREGATES, bytes: BYTES });
    await owner.query('vacuum analyze outbox.delivery, outbox.event');
    const running = Array.from({ length: relays }, (_, n) => startRelay(bench, database, queue, 'drain', `slot-${n}`));
    const cores = coresInUse();
    await Promise.all(running.map((relay) => relay.result));
    const inUse = cores();
    const { rows } = await owner.query(`select count(*)::integer as left from outbox.delivery where state = 'pending'`);
    if (rows[0].left > 0) throw new Error(`${rows[0].left} events are left after ${relays} relays drained`);
    const { firstAt, lastAt, orderBreaks } = await queue.counts();
    return { rate: (events * 1000) / (lastAt - firstAt), inUse, orderBreaks };
  } finally {
    await queue.stop();
    await database.drop();
  }
}

async function run(bench: Bench): Promise<Figure[]> {
  const events = sized(bench, 100_000);
  const one = await rateOf(bench, 1, events);
  const two = await rateOf(bench, 2, events);
  return [
    { name: 'two relays ÷ one', value: two.rate / one.rate, unit: '×', goal: { atLeast: 1 } },
    { name: '  one relay', value: one.rate, unit: 'events/s' },
    { name: '  two relays together', value: two.rate, unit: 'events/s' },
    { name: '  cores in use with one', value: one.inUse, unit: '' },
    { name: '  cores in use with two', value: two.inUse, unit: '' },
    { name: 'order breaks', value: one.orderBreaks + two.orderBreaks, unit: '', goal: { atMost: 0 } },
  ];
}

export const twoRelays: Benchmark = {
  name: 'two-relays',
  what: 'two relays against one on the same backlog',
  minutes: 1,
  run,
};
