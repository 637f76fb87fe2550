import { GetQueueAttributesCommand, ReceiveMessageCommand } from '@aws-sdk/client-sqs';
import type { SQSEvent, SQSRecord } from 'aws-lambda';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { catalogueRows } from '../../shared/events/index.ts';
import { endReplay, type Mode, resetConsumer } from '../../shared/inbox/index.ts';
import {
  listParked,
  listReplays,
  type Message,
  type Publisher,
  redriveDeadLetters,
  resumeReplay,
  runRelay,
  skip,
  sqsPublisher,
  startReplay,
} from '../../shared/outbox/index.ts';
import { counterConsumer, createEffects, effectsOf, heldOf } from '../support/counter-consumer.ts';
import { counterCatalogue } from '../support/counter-events.ts';
import { testDatabase } from '../support/database.ts';
import { deadLetterQueues } from '../support/dead-letters.ts';
import { append, refused, relayOptions } from '../support/outbox.ts';
import { testQueue } from '../support/queue.ts';
import { drainOf, fifoRecord, invoke } from '../support/sqs-batch.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const operator = database.pool('sealed_operator');
const pool = database.pool('sealed_ledger');
const { client, pair } = await deadLetterQueues();

const SCOPE = { aggregateType: 'counter' };
const COUNTERS = ['a', 'b', 'c'];

beforeAll(async () => {
  await createEffects(database);
  await owner.query('select outbox.install_catalogue($1)', [JSON.stringify(catalogueRows(counterCatalogue))]);
});

beforeEach(async () => {
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream, effect');
});

const added = (counter: string): object => ({
  type: 'counter.added',
  aggregate_type: 'counter',
  aggregate_id: counter,
  data: { amount: 1 },
});

const relay = (publisher: Publisher): Promise<unknown> => runRelay(relayOptions(database, { all: publisher }));

/** What a fold of the event table gives: each event of a counter once, in order. */
async function fold(counter: string): Promise<string[]> {
  const { rows } = await owner.query('select sequence from outbox.event where aggregate_id = $1 order by sequence', [
    counter,
  ]);
  return rows.map(({ sequence }) => sequence);
}

async function effectsAre(consumer: string): Promise<void> {
  const effects = await effectsOf(pool, consumer);
  for (const counter of COUNTERS) {
    expect(effects.filter((it) => it.counter === counter).map(({ sequence }) => sequence)).toEqual(await fold(counter));
  }
  expect(await heldOf(pool, consumer)).toEqual([]);
}

describe.each(['any', 'latest', 'strict'] satisfies readonly Mode[])('case 62: mode %s', (mode) => {
  it('a replay within five minutes, beside live traffic of the same aggregates, ends in what the event table says', async () => {
    const name = `rebuilt-${mode}`;
    const queue = await testQueue(`${name}.fifo`);
    const publisher = queue.publisher();
    const { handler } = counterConsumer({ name, pool, mode });
    for (let n = 0; n < 4; n += 1) await append(writer, ...COUNTERS.map((counter) => added(counter)));
    await relay(publisher);
    await queue.consume(handler);
    await effectsAre(name);

    const number = await startReplay(
      operator,
      { destination: 'all', scope: SCOPE, paused: true, perSecond: 10_000 },
      'r',
    );
    await append(writer, ...COUNTERS.map((counter) => added(counter)));
    await relay(publisher);
    await resetConsumer(operator, name, SCOPE, number, 'r');
    await owner.query('delete from effect where consumer = $1', [name]);
    await queue.consume(handler);
    await resumeReplay(operator, number, 'r');
    await append(writer, ...COUNTERS.map((counter) => added(counter)));
    await relay(publisher);
    await queue.consume(handler);
    expect(await listReplays(operator, { number })).toMatchObject([{ state: 'done', waiting: 0 }]);
    await endReplay(operator, name, 'r');
    // Without order, what is new does not wait for what is held: `latest` would drop that as older, `any` apply it after.
    if (mode !== 'strict') await drainOf(handler);
    await append(writer, ...COUNTERS.map((counter) => added(counter)));
    await relay(publisher);
    await queue.consume(handler);
    await drainOf(handler);
    await effectsAre(name);
  });
});

describe('case 19: sent, the mark failed, sent again after the queue has forgotten it', () => {
  it('has one effect', async () => {
    const queue = await testQueue('forgotten.fifo');
    const { handler } = counterConsumer({ name: 'once-after-all', pool });
    await append(writer, added('a'), added('a'));
    await relay(queue.publisher());
    await queue.consume(handler);
    // As if the relay had died before it settled. Another queue stands for one that has forgotten: it suppresses nothing.
    await owner.query(`update outbox.delivery set state = 'pending', published_at = null, xid = pg_current_xact_id()`);
    const forgetful = await testQueue('forgetful.fifo');
    await relay(forgetful.publisher());
    expect(await forgetful.consume(handler)).toBeGreaterThan(0);
    await effectsAre('once-after-all');
  });
});

describe('like case 19: the repeat comes when later events of its aggregate were applied', () => {
  it('and has one effect, in every mode', async () => {
    const [queue, forgetful] = [await testQueue('first.fifo'), await testQueue('second.fifo')];
    const takenFrom = async (from: typeof queue): Promise<SQSRecord[]> => {
      const taken: SQSRecord[] = [];
      await from.consume(async ({ Records }: SQSEvent) => {
        taken.push(...Records);
        return { batchItemFailures: [] };
      });
      return taken;
    };
    await append(writer, ...COUNTERS.map((counter) => added(counter)));
    await append(writer, added('a'), added('b'));
    await relay(queue.publisher());
    const first = await takenFrom(queue);
    expect(first).toHaveLength(5);
    await owner.query(
      `update outbox.delivery set state = 'pending', published_at = null, xid = pg_current_xact_id() where sequence = 1`,
    );
    await relay(forgetful.publisher());
    const repeats = await takenFrom(forgetful);
    expect(repeats).toHaveLength(COUNTERS.length);
    for (const mode of ['any', 'latest', 'strict'] satisfies readonly Mode[]) {
      const name = `repeat-late-${mode}`;
      const { handler, metrics } = counterConsumer({ name, pool, mode });
      for (const records of [first, repeats]) expect(await invoke(handler, records)).toEqual([]);
      await effectsAre(name);
      expect(metrics.sum('Repeats')).toBe(COUNTERS.length);
    }
  });
});

describe('like case 59: an event that can never be sent, and that an operator skips', () => {
  it('leaves a tombstone, over which a strict consumer goes on with what comes behind', async () => {
    const queue = await testQueue('skipped.fifo');
    const { handler } = counterConsumer({ name: 'over-a-tombstone', pool });
    const real = queue.publisher();
    const isBad = ({ body }: Message): boolean => (JSON.parse(body) as { sequence: string }).sequence === '2';
    const refusing: Publisher = {
      ...real,
      async publish(messages) {
        const good = messages.filter((message) => !isBad(message));
        const left = good.length === 0 ? [] : [...(await real.publish(good))];
        return messages.map((message) => (isBad(message) ? refused('InvalidMessageContents') : left.shift()!));
      },
    };
    for (let n = 0; n < 3; n += 1) await append(writer, added('a'));
    await relay(refusing);
    await queue.consume(handler);
    const sequences = async () => (await effectsOf(pool, 'over-a-tombstone')).map(({ sequence }) => sequence);
    expect(await sequences()).toEqual(['1']);

    const {
      parked: [parked],
    } = await listParked(operator);
    await skip(operator, parked!.position, 'its data can not be sent');
    await relay(real);
    await queue.consume(handler);
    expect(await sequences()).toEqual(['1', '3']);
    expect(await heldOf(pool, 'over-a-tombstone')).toEqual([]);
  });
});

describe('like case 35: the first of an aggregate went to the dead letters, the next came through', () => {
  it('and its redrive neither turns the state back nor loses it', async () => {
    const { queue: to, deadLetters: from } = pair;
    const publisher = sqsPublisher({ client, queueUrl: to, fifo: true });
    await append(writer, added('a'));
    await relay(publisher);
    // Received by a function that dies, and given up.
    for (let n = 0; n < 2; n += 1) {
      await client.send(new ReceiveMessageCommand({ QueueUrl: to, VisibilityTimeout: 0 }));
    }
    const { Attributes } = await client.send(
      new GetQueueAttributesCommand({ QueueUrl: from, AttributeNames: ['ApproximateNumberOfMessages'] }),
    );
    expect(Attributes).toEqual({ ApproximateNumberOfMessages: '1' });

    const { handler } = counterConsumer({ name: 'behind-dead-letters', pool });
    const queue = await testQueue('later.fifo');
    await append(writer, added('a'));
    await relay(queue.publisher());
    await queue.consume(handler);
    expect(await heldOf(pool, 'behind-dead-letters')).toEqual([{ counter: 'a', sequence: '2', reason: 'gap' }]);

    await expect(redriveDeadLetters({ client, from, to, perSecond: 1000 })).resolves.toMatchObject({ moved: 1 });
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({ QueueUrl: to, MessageSystemAttributeNames: ['All'] }),
    );
    expect(Messages).toHaveLength(1);
    await invoke(handler, [fifoRecord('a', Messages[0]!.Body ?? '')]);
    await effectsAre('behind-dead-letters');
  });
});
