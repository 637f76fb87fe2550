import { setTimeout as delay } from 'node:timers/promises';
import { extraPackages } from '../../scripts/extra-packages.ts';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import type { Figure } from '../harness/figure.ts';
import { AGGREGATES, BYTES } from '../harness/messages.ts';
import { preload } from '../harness/preload.ts';
import { startChild } from '../harness/process.ts';
import { type BenchQueue, startQueue } from '../harness/queue.ts';
import { drain } from '../harness/relay.ts';
import { PEERS, type PeerStart } from '../peers/peer.ts';

/** A peer that is not done by then is judged by what it achieved. */
const LONGEST_MS = 30_000;
/** Fewer keys than aggregates cost some peers less. */
const SHARED_KEYS = 1_000;

interface Rate {
  readonly rate: number;
  readonly orderBreaks: number;
}

/** Events a second between the first call and the last answer. */
async function untilDone(queue: BenchQueue, events: number): Promise<Rate> {
  const end = performance.now() + LONGEST_MS;
  for (;;) {
    const { accepted, repeats, firstAt, lastAt, orderBreaks } = await queue.counts();
    const first = accepted - repeats;
    if (first >= events || performance.now() > end) {
      return { rate: first === 0 ? 0 : (first * 1000) / (lastAt - firstAt), orderBreaks };
    }
    await delay(100);
  }
}

async function peerRate(bench: Bench, sizes: Omit<PeerStart, 'connection' | 'queue'>): Promise<Rate> {
  const database = await bench.server.database();
  const queue = await startQueue();
  const child = startChild('peers/process.ts');
  try {
    const { endpoint, queueUrl } = queue;
    const start: PeerStart = { ...sizes, connection: database.connection('postgres'), queue: { endpoint, queueUrl } };
    await child.ask('prepare', start);
    await child.ask('start', start);
    return await untilDone(queue, sizes.events);
  } finally {
    await child.stop();
    await queue.stop();
    await database.drop();
  }
}

async function ourRate(bench: Bench, events: number, aggregates: number): Promise<Rate> {
  const database = await bench.server.database();
  const queue = await startQueue();
  try {
    const owner = await database.connect('postgres');
    await preload(owner, { events, aggregates, bytes: BYTES });
    await owner.query('vacuum analyze outbox.delivery, outbox.event');
    await drain(bench, database, queue);
    return await untilDone(queue, events);
  } finally {
    await queue.stop();
    await database.drop();
  }
}

async function run(bench: Bench): Promise<Figure[]> {
  await extraPackages('bench/peers', bench.note);
  const aggregates = sized(bench, AGGREGATES);
  const sizes = { events: sized(bench, 100_000), aggregates, bytes: BYTES };
  const shared = sized(bench, SHARED_KEYS);
  const ours = await ourRate(bench, sizes.events, aggregates);
  const figures: Figure[] = [];
  let best = 0;
  for (const peer of PEERS) {
    for (const [keys, by] of [
      [aggregates, 'a key per aggregate'],
      [shared, `${shared.toLocaleString('en-US')} keys`],
    ] as const) {
      bench.note(`${peer}, ${by}`);
      const { rate, orderBreaks } = await peerRate(bench, { ...sizes, peer, keys });
      if (orderBreaks === 0) best = Math.max(best, rate);
      figures.push({ name: `  ${peer}, ${by}`, value: rate, unit: 'events/s' });
      if (orderBreaks > 0) figures.push({ name: `  ${peer}, ${by}: order breaks`, value: orderBreaks, unit: '' });
    }
  }
  if (ours.orderBreaks > 0) throw new Error(`the relay broke the order ${ours.orderBreaks} times`);
  return [
    {
      name: 'one relay ÷ the best peer that keeps order',
      value: best > 0 ? ours.rate / best : Number.NaN,
      unit: '×',
      goal: { atLeast: 5 },
    },
    { name: '  one relay', value: ours.rate, unit: 'events/s' },
    ...figures,
  ];
}

export const peers: Benchmark = {
  name: 'peers',
  what: 'one relay against pg-transactional-outbox, graphile-worker and pg-boss, each keeping order',
  minutes: 5,
  run,
};
