import { beforeEach, describe, expect, it } from 'vitest';
import { type Message, readLag, type RelayOptions, runRelay } from '../../shared/outbox/index.ts';
import { bulkLoad } from '../support/bulk.ts';
import { deliveriesOf, statesOf } from '../support/chain.ts';
import { testDatabase } from '../support/database.ts';
import { leaseClock, until } from '../support/lease-clock.ts';
import {
  ACCEPTED,
  type Answer,
  append,
  emptyOutbox,
  installCatalogue,
  orderBreaks,
  places,
  recordingPublisher,
  refused,
  relayOptions,
  thing,
} from '../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const monitor = database.pool('sealed_monitor');
const GOOD = { name: 'good', kind: 'sqs-fifo' } as const;
const BAD = { name: 'bad', kind: 'sqs-fifo' } as const;

beforeEach(async () => {
  await emptyOutbox(owner);
  await installCatalogue(owner, [{ type: 'thing.happened' }], [GOOD, BAD]);
});

/** A relay of both; counts the events that it has read out of the database. */
function relay(answer: Answer, more: Partial<RelayOptions> = {}) {
  const good = recordingPublisher();
  const bad = recordingPublisher(answer);
  const stop = new AbortController();
  let loaded = 0;
  const options = relayOptions(
    database,
    { good, bad },
    { mode: 'continuous', clock: leaseClock(), random: () => 0, ...more, signal: stop.signal },
  );
  const running = runRelay({
    ...options,
    connect: async () => {
      const connection = await options.connect();
      const query = connection.query.bind(connection);
      connection.query = (text: string, values?: readonly unknown[]) => {
        if (text.includes('outbox.load(')) loaded += (values as [string[]])[0].length;
        return query(text, values);
      };
      return connection;
    },
  });
  return {
    good,
    bad,
    loaded: () => loaded,
    async stop() {
      stop.abort();
      await running;
    },
  };
}

const left = async (name: string): Promise<number> =>
  (
    await owner.query(
      `select from outbox.delivery d join outbox.destination g on g.number = d.destination
      where g.name = $1 and d.state = 'pending'`,
      [name],
    )
  ).rowCount ?? 0;
const WAITING = 7_000;
const WINDOW = { rows: 500, bytes: 32 * 1024 * 1024, page: 100, rowsOfAggregate: 100 };

describe('one bad destination with many waiting', () => {
  it('case 14: it is away: the other goes on, and the relay holds no more of them than its window', async () => {
    await bulkLoad(owner, WAITING, { destination: 'bad' });
    const one = relay(() => refused('ServiceUnavailable'), { window: WINDOW });
    await until('some probes', () => one.bad.calls.length >= 3);
    for (let round = 0; round < 3; round += 1) {
      await append(writer, ...Array.from({ length: 100 }, (_, n) => thing(`a${n}`)));
      await until('the good ones', async () => (await left('good')) === 0);
    }
    const ofBad = one.loaded() - one.good.accepted.length;
    expect(ofBad).toBeGreaterThan(0);
    expect(ofBad).toBeLessThanOrEqual(WINDOW.rows);
    expect(await left('bad')).toBe(WAITING + 300);
    await one.stop();
  });

  it('like case 14: it never answers: the calls under way are bounded, too', async () => {
    await bulkLoad(owner, WAITING, { destination: 'bad' });
    const gate = Promise.withResolvers<void>();
    const one = relay(() => gate.promise.then(() => ACCEPTED), { window: WINDOW, concurrency: 4 });
    await until('calls', () => one.bad.calls.length === 4);
    for (let round = 0; round < 3; round += 1) {
      await append(writer, ...Array.from({ length: 100 }, (_, n) => thing(`a${n}`)));
      await until('the good ones', async () => (await left('good')) === 0);
    }
    expect(one.bad.calls).toHaveLength(4);
    expect(one.loaded() - one.good.accepted.length).toBeLessThanOrEqual(WINDOW.rows + 4 * 10);
    gate.resolve();
    await one.stop();
  });

  it('like case 14: it refuses each one for good: all are parked, none is kept in memory, and the other goes on', async () => {
    await bulkLoad(owner, 2_000, { destination: 'bad' });
    const one = relay(() => refused('InvalidMessageContents'), { window: WINDOW });
    await append(writer, ...Array.from({ length: 100 }, (_, n) => thing(`a${n}`)));
    await until('the good ones', async () => (await left('good')) === 0);
    await until('all parked', async () => (await left('bad')) === 0);
    await one.stop();
    // Each was read once: none comes back.
    expect(one.loaded()).toBe(2_000 + 200);
    const lag = (await readLag(monitor)).destinations.find(({ destination }) => destination === 'bad');
    expect(lag).toMatchObject({ pending: 0, parked: 2_100, blocked: 0 });
  });
});

describe('an aggregate at two destinations', () => {
  const poison: Answer = (message) =>
    JSON.parse(message.body).data.poison === true ? refused('InvalidMessageContents') : ACCEPTED;
  const drained = async (answer: Answer): Promise<{ good: Message[]; bad: Message[] }> => {
    const [good, bad] = [recordingPublisher(), recordingPublisher(answer)];
    await runRelay(relayOptions(database, { good, bad }));
    return { good: good.accepted, bad: bad.accepted };
  };

  it('like case 5: in backoff at the one, it flows at the other', async () => {
    await append(writer, thing('a'), thing('a'), thing('b'));
    const { good, bad } = await drained((message) => (message.groupId === 'a' ? refused('Odd') : ACCEPTED));
    expect(places(good).toSorted()).toEqual(['a#1', 'a#2', 'b#1']);
    expect(places(bad)).toEqual(['b#1']);
    expect((await deliveriesOf(owner, 'bad')).map(({ place, attempts }) => [place, attempts])).toEqual([
      ['a#1', 1],
      ['a#2', 0],
      ['b#1', 0],
    ]);
  });

  it('like case 9: parked at the one, it is blocked there and published at the other', async () => {
    await append(writer, thing('a', { poison: true }), thing('a'), thing('b'));
    const { good, bad } = await drained(poison);
    expect(places(good).toSorted()).toEqual(['a#1', 'a#2', 'b#1']);
    expect(places(bad)).toEqual(['b#1']);
    expect(await statesOf(owner, 'bad')).toEqual({ 'a#1': 'parked', 'a#2': 'blocked', 'b#1': 'published' });
    expect(new Set(Object.values(await statesOf(owner, 'good')))).toEqual(new Set(['published']));
  });

  it('like case 52: appends in several calls and savepoints of one transaction: in order at each destination', async () => {
    const client = await database.client('sealed_writer');
    await client.query('begin');
    for (let round = 0; round < 20; round += 1) {
      await client.query('savepoint s');
      await append(client, thing('a'), thing('b'), thing('a'));
      if (round % 3 === 2) await client.query('rollback to savepoint s');
    }
    await client.query('commit');
    const { good, bad } = await drained(() => ACCEPTED);
    const expected = (aggregate: string, count: number) =>
      Array.from({ length: count }, (_, n) => `${aggregate}#${n + 1}`);
    for (const messages of [good, bad]) {
      expect(orderBreaks(messages)).toBe(0);
      expect(places(messages).filter((place) => place.startsWith('a'))).toEqual(expected('a', 28));
      expect(places(messages).filter((place) => place.startsWith('b'))).toEqual(expected('b', 14));
    }
  });

  it('like case 56: two types with the same id: a parked one of the first holds back nothing of the second', async () => {
    await installCatalogue(
      owner,
      [{ type: 'thing.happened' }, { type: 'other.happened', aggregate_type: 'other' }],
      [GOOD, { name: 'shared', kind: 'sqs-fifo', group_id: 'aggregate-type-and-id' }],
    );
    const other = { type: 'other.happened', aggregate_type: 'other', aggregate_id: '42', data: {} };
    await append(writer, thing('42', { poison: true }), other, thing('42'), other);
    const shared = recordingPublisher(poison);
    await runRelay(relayOptions(database, { good: recordingPublisher(), shared }));
    expect(shared.accepted.map(({ groupId, body }) => [groupId, JSON.parse(body).sequence])).toEqual([
      ['other/42', '1'],
      ['other/42', '2'],
    ]);
  });
});

describe('a window that others must not fill', () => {
  it('like case 10: a thousand aggregates that wait for their retry: calls are still full of others', async () => {
    await bulkLoad(owner, 1_000, { destination: 'bad', prefix: 'stuck' });
    await owner.query(`update outbox.delivery set attempts = 1, due_at = clock_timestamp() + interval '1 hour'`);
    await bulkLoad(owner, 100, { destination: 'bad', prefix: 'free' });
    const bad = recordingPublisher();
    await runRelay(
      relayOptions(database, { good: recordingPublisher(), bad }, { window: { ...WINDOW, rows: 200 }, concurrency: 1 }),
    );
    expect(bad.accepted).toHaveLength(100);
    expect(bad.calls.map((call) => call.length)).toEqual(Array.from({ length: 10 }, () => 10));
  });
});
