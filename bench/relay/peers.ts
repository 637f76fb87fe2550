import { setTimeout as delay } from 'node:timers/promises';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import type { Figure } from '../harness/figure.ts';
import { BYTES } from '../harness/messages.ts';
import { PEERS, type PeerStart, preparePeer } from '../harness/peers.ts';
import { preload } from '../harness/preload.ts';
import { startChild } from '../harness/process.ts';
import { type BenchQueue, startQueue } from '../harness/queue.ts';
import { drain } from '../harness/relay.ts';

/** A peer that is not done by then is judged by what it achieved. */
const LONGEST_MS = 60_000;

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

async function peerRate(bench: Bench, peer: PeerStart['peer'], events: number, aggregates: number): Promise<Rate> {
  const database = await bench.server.database();
  const queue = await startQueue();
  const child = startChild('peer-process.ts');
  try {
    await preparePeer(database, peer, { events, aggregates, bytes: BYTES });
    const { endpoint, queueUrl } = queue;
    await child.ask('start', {
      peer,
      connection: database.connection('postgres'),
      queue: { endpoint, queueUrl },
    } satisfies PeerStart);
    return await untilDone(queue, events);
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
  const events = sized(bench, 20_000);
  const aggregates = sized(bench, 10_000);
  // More of them, because in less than a second it would hardly have started.
  const ours = await ourRate(bench, sized(bench, 100_000), 10_000);
  const figures: Figure[] = [];
  let best = 0;
  for (const peer of PEERS) {
    const { rate, orderBreaks } = await peerRate(bench, peer, events, aggregates);
    if (orderBreaks === 0) best = Math.max(best, rate);
    figures.push(
      { name: `  ${peer}`, value: rate, unit: 'events/s' },
      { name: `  ${peer}: order breaks`, value: orderBreaks, unit: '' },
    );
  }
  return [
    { name: 'one relay ÷ the best peer that keeps order', value: ours.rate / best, unit: '×', goal: { atLeast: 5 } },
    { name: '  one relay', value: ours.rate, unit: 'events/s' },
    ...figures,
  ];
}

export const peers: Benchmark = {
  name: 'peers',
  what: 'one relay against pg-transactional-outbox, graphile-worker and pg-boss, each keeping order',
  run,
};
