import type pg from 'pg';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Message, PublishResult } from '../../shared/outbox/index.ts';
import { PublishError, runRelay } from '../../shared/outbox/index.ts';
import { testDatabase } from '../support/database.ts';
import {
  ACCEPTED,
  append,
  drain,
  emptyOutbox,
  installCatalogue,
  orderBreaks,
  places,
  QUEUE,
  recordingPublisher,
  refused,
  relayOptions,
  thing,
} from '../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writers = database.pool('sealed_writer', 8);

beforeEach(async () => {
  await emptyOutbox(owner);
  await installCatalogue(owner, [{ type: 'thing.happened' }, { type: 'other.happened', aggregate_type: 'other' }]);
});

async function deliveries(): Promise<{ place: string; state: string; attempts: number; last_error: string | null }[]> {
  const { rows } = await owner.query(
    `select e.aggregate_id || '#' || d.sequence as place, d.state, d.attempts, d.last_error
       from outbox.delivery d join outbox.event e on e.id = d.event_id order by d.position`,
  );
  return rows;
}

async function states(): Promise<Record<string, string>> {
  return Object.fromEntries((await deliveries()).map((row) => [row.place, row.state]));
}

describe('order', () => {
  it('publishes what was committed, per aggregate in sequence order, and marks it', async () => {
    for (let i = 0; i < 5; i++) await append(writers, thing('a', { i }), thing('b', { i }), thing('c', { i }));
    const queue = recordingPublisher();
    const report = await drain(database, queue);
    expect(report).toEqual({ ended: 'drained', published: 15, retried: 0, parked: 0 });
    expect(orderBreaks(queue.accepted)).toBe(0);
    expect(new Set(Object.values(await states()))).toEqual(new Set(['published']));
    expect(await drain(database, queue)).toMatchObject({ published: 0 });
  });

  it('case 1: A takes its place, B commits and is sent, A commits later: A is still sent', async () => {
    const a = await database.client('sealed_writer');
    await a.query('begin');
    await append(a, thing('late'));
    await append(writers, thing('early'));
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['early#1']);
    await a.query('commit');
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['early#1', 'late#1']);
  });

  it('case 51: X#1 takes its place and stays open; thousands overtake it; X#2 commits right after it: 1 goes before 2', async () => {
    const late = await database.client('sealed_writer');
    const queue = recordingPublisher();
    const stop = new AbortController();
    const running = runRelay(relayOptions(database, { queue }, { mode: 'continuous', signal: stop.signal }));
    await late.query('begin');
    await append(late, thing('X'));
    for (let i = 0; i < 10; i++) await append(writers, ...Array.from({ length: 100 }, (_, n) => thing(`other-${n}`)));
    await expect.poll(() => queue.accepted.length, { timeout: 20_000 }).toBe(1000);
    const second = append(writers, thing('X'));
    await late.query('commit');
    await second;
    await append(writers, thing('X'));
    await expect.poll(() => queue.accepted.length, { timeout: 20_000 }).toBe(1003);
    stop.abort();
    await running;
    expect(places(queue.accepted).filter((place) => place.startsWith('X'))).toEqual(['X#1', 'X#2', 'X#3']);
    expect(orderBreaks(queue.accepted)).toBe(0);
  });

  it('case 6: sends in order although RETURNING and joins give rows in any order', async () => {
    await append(writers, ...Array.from({ length: 250 }, (_, i) => thing('one', { i })));
    // Statistics that talk the planner into hash joins.
    await owner.query('analyze outbox.event, outbox.delivery');
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(Array.from({ length: 250 }, (_, i) => `one#${i + 1}`));
  });

  it('case 8: of one aggregate, one message is in flight: never two in one call, none before its predecessor is acknowledged', async () => {
    await append(writers, ...Array.from({ length: 30 }, (_, i) => thing(`g${i % 3}`, { i })));
    let open = 0;
    const inFlight = new Set<string>();
    const queue = recordingPublisher(async (message) => {
      expect(inFlight.has(message.groupId)).toBe(false);
      inFlight.add(message.groupId);
      open += 1;
      await new Promise((resolve) => setImmediate(resolve));
      inFlight.delete(message.groupId);
      return ACCEPTED;
    });
    await drain(database, queue);
    for (const call of queue.calls) expect(new Set(call.map((message) => message.groupId)).size).toBe(call.length);
    expect(open).toBe(30);
    expect(orderBreaks(queue.accepted)).toBe(0);
  });

  it('case 56: invoice 42 and payment 42 do not wait for each other, and have groups of their own where the destination says so', async () => {
    await installCatalogue(
      owner,
      [{ type: 'thing.happened' }, { type: 'other.happened', aggregate_type: 'other' }],
      [{ name: 'shared', kind: 'sqs-fifo', group_id: 'aggregate-type-and-id' }],
    );
    await append(writers, thing('42'), {
      type: 'other.happened',
      aggregate_type: 'other',
      aggregate_id: '42',
      data: {},
    });
    const shared = recordingPublisher((message) =>
      message.type === 'thing.happened' ? refused('InvalidMessageContents') : ACCEPTED,
    );
    await runRelay(relayOptions(database, { shared, queue: recordingPublisher() }));
    expect(
      shared.calls
        .flat()
        .map((message) => message.groupId)
        .toSorted(),
    ).toEqual(['other/42', 'thing/42']);
    expect(shared.accepted.map((message) => message.groupId)).toEqual(['other/42']);
  });

  it('two relays at work on 200 aggregates never break the order, and send each event once', async () => {
    for (let round = 0; round < 5; round++)
      await append(writers, ...Array.from({ length: 200 }, (_, i) => thing(`r${i}`)));
    const all: Message[] = [];
    const answer = async (message: Message): Promise<PublishResult> => {
      await new Promise((resolve) => setImmediate(resolve));
      all.push(message);
      return ACCEPTED;
    };
    const stop = new AbortController();
    const options = { mode: 'continuous', signal: stop.signal } as const;
    const relays = ['one', 'two'].map((slot) =>
      runRelay(relayOptions(database, { queue: recordingPublisher(answer) }, { ...options, slot })),
    );
    await expect
      .poll(async () => (await owner.query(`select from outbox.delivery where state <> 'published'`)).rowCount, {
        timeout: 30_000,
      })
      .toBe(0);
    stop.abort();
    await Promise.all(relays);
    expect(orderBreaks(all)).toBe(0);
    expect(all.length).toBe(1000);
  });
});

describe('refusals', () => {
  it('case 15: one entry of ten refused: nine settled, one retried, the later events of its aggregate wait', async () => {
    for (let i = 0; i < 2; i++) await append(writers, ...Array.from({ length: 10 }, (_, n) => thing(`e${n}`)));
    const queue = recordingPublisher((message) =>
      message.groupId === 'e3' ? refused('SomethingOfThisMessage') : ACCEPTED,
    );
    const report = await drain(database, queue);
    expect(report).toMatchObject({ published: 18, retried: 1 });
    expect(places(queue.accepted).some((place) => place.startsWith('e3'))).toBe(false);
    const e3 = (await deliveries()).filter((row) => row.place.startsWith('e3'));
    expect(e3).toEqual([
      { place: 'e3#1', state: 'pending', attempts: 1, last_error: 'SomethingOfThisMessage: as the test wants it' },
      { place: 'e3#2', state: 'pending', attempts: 0, last_error: null },
    ]);
  });

  it('case 5: a head that waits for its retry holds back its own aggregate only, and then both go in order', async () => {
    await append(writers, thing('slow'), thing('slow'), thing('quick'));
    let refuse = true;
    const queue = recordingPublisher((message) => (refuse && message.groupId === 'slow' ? refused('Odd') : ACCEPTED));
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['quick#1']);
    await append(writers, thing('quick'), thing('slow'));
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['quick#1', 'quick#2']);
    refuse = false;
    await owner.query(`update outbox.delivery set due_at = clock_timestamp() where state = 'pending'`);
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['quick#1', 'quick#2', 'slow#1', 'slow#2', 'slow#3']);
  });

  it('parks a message that can never succeed at once, and one that failed twelve times; others flow', async () => {
    await append(writers, thing('poison'), thing('stubborn'), thing('fine'), thing('poison'));
    await owner.query(
      `update outbox.delivery set attempts = 11 where event_id in (select id from outbox.event where aggregate_id = 'stubborn')`,
    );
    const queue = recordingPublisher((message) => {
      if (message.groupId === 'poison') return refused('InvalidMessageContents');
      return message.groupId === 'stubborn' ? refused('Odd') : ACCEPTED;
    });
    await drain(database, queue);
    expect(await states()).toMatchObject({ 'poison#1': 'parked', 'stubborn#1': 'parked', 'fine#1': 'published' });
    expect((await states())['poison#2']).not.toBe('published');
    await append(writers, thing('poison'), thing('fine'));
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['fine#1', 'fine#2']);
  });

  it('blocks what is appended behind a parked head, also behind more than one look reads of an aggregate', async () => {
    await append(writers, ...Array.from({ length: 250 }, () => thing('long')));
    await drain(
      database,
      recordingPublisher(() => refused('InvalidMessageContents')),
    );
    await append(writers, thing('long'), thing('long'));
    await drain(database, recordingPublisher());
    const { rows } = await owner.query(
      'select state, count(*)::integer as n from outbox.delivery group by state order by state',
    );
    expect(rows).toEqual([
      { state: 'parked', n: 1 },
      { state: 'blocked', n: 251 },
    ]);
  });

  it('case 10: a thousand rows of aggregates that cannot move do not fill the window', async () => {
    await append(writers, ...Array.from({ length: 100 }, (_, i) => thing(`stuck-${i}`)));
    await drain(
      database,
      recordingPublisher(() => refused('InvalidMessageContents')),
    );
    await append(writers, ...Array.from({ length: 1100 }, (_, i) => thing(`stuck-${i % 100}`)));
    await append(writers, thing('free'));
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['free#1']);
  });

  it('case 53: throttled, away, forbidden, per entry or per call: no attempt charged, nothing parked, all sent afterwards', async () => {
    await append(writers, ...Array.from({ length: 25 }, (_, i) => thing(`o${i}`)));
    for (const code of ['ThrottlingException', 'InternalFailure', 'AccessDenied', 'KmsThrottled']) {
      await drain(
        database,
        recordingPublisher(() => refused(code)),
      );
      await drain(
        database,
        recordingPublisher(() => {
          throw new PublishError(code, 'the whole call');
        }),
      );
    }
    expect(await deliveries()).toEqual(
      expect.arrayContaining([{ place: 'o0#1', state: 'pending', attempts: 0, last_error: null }]),
    );
    expect((await deliveries()).every((row) => row.attempts === 0 && row.state === 'pending')).toBe(true);
    const queue = recordingPublisher();
    expect(await drain(database, queue)).toMatchObject({ published: 25 });
  });

  it('case 54: one message that makes every call fail is found by sending one by one; the others go out', async () => {
    await append(writers, ...Array.from({ length: 10 }, (_, i) => thing(`c${i}`)));
    const queue = recordingPublisher((message) => {
      if (message.groupId === 'c4') throw new PublishError('SerializationException', 'of the whole call');
      return ACCEPTED;
    });
    await drain(database, queue);
    expect(queue.accepted.length).toBe(9);
    expect((await deliveries()).find((row) => row.place === 'c4#1')).toMatchObject({ state: 'pending', attempts: 1 });
  });

  it('case 16: bodies each under the limit, their sum over it: split into calls, all sent', async () => {
    await append(writers, ...Array.from({ length: 10 }, (_, i) => thing(`big${i}`, { s: 'x'.repeat(300_000) })));
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(queue.accepted.length).toBe(10);
    for (const call of queue.calls) {
      expect(call.reduce((sum, message) => sum + message.bytes, 0)).toBeLessThanOrEqual(1_048_576);
    }
  });

  it('case 20: a preflight that fails sends nothing and marks nothing', async () => {
    await append(writers, thing('a'));
    const queue = {
      ...recordingPublisher(),
      preflight: async () => {
        throw new PublishError('QueueDoesNotExist', 'there is no such queue');
      },
    };
    expect(await drain(database, queue)).toMatchObject({ published: 0 });
    expect(queue.calls).toEqual([]);
    expect(await states()).toEqual({ 'a#1': 'pending' });
  });

  it('a destination without a publisher does not stop the others, and its events wait', async () => {
    await installCatalogue(owner, [{ type: 'thing.happened' }], [QUEUE, { name: 'nowhere', kind: 'sqs-fifo' }]);
    await append(writers, thing('a'));
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(queue.accepted.length).toBe(1);
    const { rows } = await owner.query(
      `select state, count(*)::integer from outbox.delivery group by state order by state`,
    );
    expect(rows).toEqual([
      { state: 'pending', count: 1 },
      { state: 'published', count: 1 },
    ]);
  });
});

describe('leases, crashes and connections', () => {
  async function holders(): Promise<number[]> {
    const { rows } = await owner.query(
      `select count(*)::integer as n from outbox.partition where lease_expires_at > clock_timestamp() group by lease_owner order by n`,
    );
    return rows.map((row) => row.n);
  }

  it('sends again what was accepted but not settled, once the lease of the relay that died is over', async () => {
    await append(writers, thing('a'), thing('a'));
    // A relay that died: its lease stands, its delivery is pending though the queue has it.
    await owner.query(
      `update outbox.partition set lease_owner = gen_random_uuid(), lease_token = 1, lease_expires_at = clock_timestamp() + interval '1 second'`,
    );
    const queue = recordingPublisher();
    const stop = new AbortController();
    const running = runRelay(relayOptions(database, { queue }, { mode: 'continuous', signal: stop.signal }));
    await expect.poll(() => queue.accepted.length, { timeout: 10_000 }).toBe(2);
    stop.abort();
    expect(await running).toMatchObject({ ended: 'stopped', published: 2 });
    const { rows } = await owner.query(
      'select max(lease_token)::integer as token, count(lease_owner)::integer as owners from outbox.partition',
    );
    expect(rows).toEqual([{ token: 2, owners: 0 }]);
  });

  it('a younger relay of the same slot takes over without a gap; the older one ends by itself', async () => {
    const queue = recordingPublisher(() => ACCEPTED, { timeoutMs: 500 });
    const stop = new AbortController();
    const options = { mode: 'continuous', signal: stop.signal, leaseSeconds: 8, slot: 'schedule' } as const;
    const first = runRelay(relayOptions(database, { queue }, options));
    await expect.poll(holders, { timeout: 10_000 }).toEqual([64]);
    const second = runRelay(relayOptions(database, { queue }, options));
    expect(await first).toMatchObject({ ended: 'handed-over' });
    await expect.poll(holders, { timeout: 10_000 }).toEqual([64]);
    await append(writers, thing('after'));
    await expect.poll(() => places(queue.accepted), { timeout: 10_000 }).toEqual(['after#1']);
    stop.abort();
    await second;
  });

  it('relays of different slots share the partitions evenly, and the last one gets them all', async () => {
    const queue = recordingPublisher(() => ACCEPTED, { timeoutMs: 500 });
    const stops = ['a', 'b', 'c'].map(() => new AbortController());
    const running = stops.map((stop, i) =>
      runRelay(
        relayOptions(
          database,
          { queue },
          { mode: 'continuous', signal: stop.signal, leaseSeconds: 6, slot: `slot-${i}` },
        ),
      ),
    );
    await expect.poll(holders, { timeout: 20_000 }).toEqual([21, 21, 22]);
    stops[0]?.abort();
    stops[2]?.abort();
    await expect.poll(holders, { timeout: 20_000 }).toEqual([64]);
    stops[1]?.abort();
    await Promise.all(running);
  });

  it('case 24: its connection is cut: it opens another and goes on; nothing is lost', async () => {
    const queue = recordingPublisher(() => ACCEPTED, { timeoutMs: 500 });
    const stop = new AbortController();
    const running = runRelay(
      relayOptions(database, { queue }, { mode: 'continuous', signal: stop.signal, leaseSeconds: 6 }),
    );
    await append(writers, thing('before'));
    // Settled, too: what was only accepted would rightly come again.
    await expect.poll(async () => (await states())['before#1'], { timeout: 10_000 }).toBe('published');
    await cutConnectionsOf('sealed_relay');
    await append(writers, thing('after'));
    await expect.poll(() => queue.accepted.length, { timeout: 20_000 }).toBe(2);
    stop.abort();
    expect(await running).toMatchObject({ ended: 'stopped', published: 2 });
  });

  it('refuses a lease that a single call could outlast', async () => {
    await expect(
      runRelay(relayOptions(database, { queue: recordingPublisher() }, { leaseSeconds: 9 })),
    ).rejects.toMatchObject({
      code: 'RELAY_OPTIONS',
    });
  });

  it('stops when its time is over, in the middle of a backlog, and gives everything back', async () => {
    await append(writers, ...Array.from({ length: 400 }, () => thing('long')));
    const queue = recordingPublisher(async () => {
      await new Promise((resolve) => setTimeout(resolve, 10));
      return ACCEPTED;
    });
    const report = await runRelay(relayOptions(database, { queue }, { mode: 'continuous', maxSeconds: 1 }));
    expect(report.ended).toBe('time-over');
    expect(report.published).toBeGreaterThan(0);
    expect(report.published).toBeLessThan(400);
    expect(await holders()).toEqual([]);
    const published = Object.values(await states()).filter((state) => state === 'published').length;
    expect(published).toBe(queue.accepted.length);
  });

  it('"published" wins over a retry or parking that another relay settles late', async () => {
    const { settle } = await import('../../shared/outbox/relay/settle.ts');
    await append(writers, thing('a'));
    const queue = recordingPublisher();
    await drain(database, queue);
    const { rows } = await owner.query('select position, partition from outbox.delivery');
    const relay = await database.client('sealed_relay');
    const me = '00000000-0000-4000-8000-000000000001';
    await owner.query(
      `update outbox.partition set lease_owner = $1, lease_expires_at = clock_timestamp() + interval '1 minute'`,
      [me],
    );
    const delivery = { position: rows[0].position, partition: rows[0].partition } as never;
    const { lease_token: token } = (
      await owner.query('select lease_token from outbox.partition where number = $1', [rows[0].partition])
    ).rows[0];
    await settle(relay, me, [{ delivery, token, outcome: { kind: 'parked', error: 'late' } }]);
    await settle(relay, me, [{ delivery, token, outcome: { kind: 'retry', delayMs: 5, error: 'late' } }]);
    expect(await states()).toEqual({ 'a#1': 'published' });
  });

  it('like case 55: a head that one relay parked and a frozen one then reports as published sets those free that were blocked behind it', async () => {
    const { settle } = await import('../../shared/outbox/relay/settle.ts');
    await append(writers, thing('a'), thing('a'), thing('b'));
    const { rows } = await owner.query('select position, partition from outbox.delivery order by position');
    await drain(
      database,
      recordingPublisher((message) => (message.groupId === 'a' ? refused('InvalidMessageContents') : ACCEPTED)),
    );
    expect(await states()).toEqual({ 'a#1': 'parked', 'a#2': 'blocked', 'b#1': 'published' });
    const frozen = await database.client('sealed_relay');
    const entries = [rows[0], rows[2]].map((row) => ({
      delivery: { position: row.position, partition: row.partition } as never,
      token: '0',
      outcome: { kind: 'published', messageId: 'late' } as const,
    }));
    const { unwritten, revived } = await settle(frozen, '00000000-0000-4000-8000-000000000002', entries);
    expect(unwritten).toEqual([]);
    expect(revived).toEqual([entries[0]]);
    await frozen.query(
      `select outbox.apply_parking(d.destination, array[d.aggregate_key]) from outbox.delivery d where d.position = $1`,
      [rows[0].position],
    );
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#2']);
  });

  it('a retry or parking counts only while the lease is held', async () => {
    const { settle } = await import('../../shared/outbox/relay/settle.ts');
    await append(writers, thing('a'));
    const { rows } = await owner.query('select position, partition from outbox.delivery');
    const relay = await database.client('sealed_relay');
    const delivery = { position: rows[0].position, partition: rows[0].partition } as never;
    await settle(relay, '00000000-0000-4000-8000-000000000002', [
      { delivery, token: '0', outcome: { kind: 'parked', error: 'not mine' } },
    ]);
    expect(await states()).toEqual({ 'a#1': 'pending' });
  });

  async function cutConnectionsOf(user: string): Promise<void> {
    const admin: pg.Client = await database.superuser();
    await admin.query(
      'select pg_terminate_backend(pid) from pg_stat_activity where usename = $1 and datname = current_database()',
      [user],
    );
  }
});
