import { beforeEach, describe, expect, it } from 'vitest';
import type { Message, PublishResult, RelayOptions } from '../../shared/outbox/index.ts';
import { runRelay } from '../../shared/outbox/index.ts';
import { deliveriesOf } from '../support/chain.ts';
import { testDatabase } from '../support/database.ts';
import { leaseClock, leaseCounts, passLeaseTime, until } from '../support/lease-clock.ts';
import {
  ACCEPTED,
  append,
  type Answer,
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

beforeEach(async () => {
  await emptyOutbox(owner);
  await installCatalogue(owner);
});

/** A relay that polls until it is stopped. */
function relay(answer: Answer, more: Partial<RelayOptions> = {}, entries = 10) {
  const queue = recordingPublisher(answer, { entries });
  const stop = new AbortController();
  const running = runRelay(
    relayOptions(database, { queue }, { mode: 'continuous', clock: leaseClock(), ...more, signal: stop.signal }),
  );
  return {
    queue,
    async stop() {
      stop.abort();
      await running;
    },
  };
}

const count = async (condition: string): Promise<number> =>
  (await owner.query(`select count(*)::integer as n from outbox.delivery d where ${condition}`)).rows[0].n;
const published = (): Promise<number> => count(`state = 'published'`);
const allPublished = async (): Promise<boolean> => (await count(`state <> 'published'`)) === 0;
const numbered = (aggregate: string, last: number): string[] =>
  Array.from({ length: last }, (_, index) => `${aggregate}#${index + 1}`);
const firstOf = (messages: readonly Message[]): string[] => [...new Set(places(messages))];

/** Accepts at once. */
const arriving =
  (arrived: Message[]): Answer =>
  (message) => {
    arrived.push(message);
    return ACCEPTED;
  };

/** An answer that a test gives when it wants to; the message arrives at the queue then. */
function held(arrived: Message[], result: PublishResult = ACCEPTED) {
  const gate = Promise.withResolvers<void>();
  const answer: Answer = async (message) => {
    await gate.promise;
    arrived.push(message);
    return result;
  };
  return { answer, open: () => gate.resolve() };
}

describe('ten events of one aggregate, calls of five, two relays', () => {
  it('case 4: the first slow beyond its lease: none of 6 to 10 before 1 to 5', async () => {
    await append(writer, ...numbered('one', 10).map(() => thing('one')));
    const arrived: Message[] = [];
    const { answer, open } = held(arrived);
    const slow = relay(answer, { slot: 'slow', clock: leaseClock('standing') }, 5);
    await until('a call of the slow one', () => slow.queue.calls.length > 0);
    await passLeaseTime(owner, 31);
    const quick = relay(arriving(arrived), { slot: 'quick' }, 5);
    await until('everything published', allPublished);
    open();
    await until('the late message', () => arrived.length > 10);
    await Promise.all([slow.stop(), quick.stop()]);
    expect(firstOf(arrived)).toEqual(numbered('one', 10));
    expect(orderBreaks(arrived)).toBe(0);
    for (const call of [...slow.queue.calls, ...quick.queue.calls]) expect(call).toHaveLength(1);
  });

  it('like case 4: the first slow within its lease: the second sends nothing of that aggregate, and all of the others', async () => {
    await append(writer, ...numbered('one', 10).map(() => thing('one')));
    const arrived: Message[] = [];
    const { answer, open } = held(arrived);
    const slow = relay(answer, { slot: 'slow' }, 5);
    await until('a call of the slow one', () => slow.queue.calls.length > 0);
    const quick = relay(() => ACCEPTED, { slot: 'quick' }, 5);
    await until('even shares', async () => (await leaseCounts(owner)).length === 2);
    await append(writer, ...Array.from({ length: 200 }, (_, n) => thing(`other-${n}`)), thing('one'));
    await until('others of the second', () => quick.queue.accepted.length > 50);
    expect(places(quick.queue.calls.flat()).filter((place) => place.startsWith('one#'))).toEqual([]);
    open();
    await until('everything published', allPublished);
    await Promise.all([slow.stop(), quick.stop()]);
    const ofOne = places([...arrived, ...quick.queue.accepted]).filter((place) => place.startsWith('one#'));
    expect(ofOne).toEqual(numbered('one', 11));
  });
});

describe('a call that takes longer than a lease', () => {
  it('case 21: while a second relay starts: the lease is renewed meanwhile, and nothing of the batch is sent again', async () => {
    await append(writer, ...Array.from({ length: 10 }, (_, n) => thing(`a${n}`)));
    const arrived: Message[] = [];
    const { answer, open } = held(arrived);
    const slow = relay(answer, { slot: 'slow' });
    await until('the call', () => slow.queue.calls.length > 0);
    const second = relay(arriving(arrived), { slot: 'second' });
    await until('a part for the second', async () => (await leaseCounts(owner)).length === 2);
    for (let passed = 0; passed < 60; passed += 20) {
      await passLeaseTime(owner, 20);
      await until('every lease renewed', async () => {
        const { rowCount } = await owner.query(
          `select from outbox.partition where lease_expires_at < clock_timestamp() + interval '25 seconds'`,
        );
        return rowCount === 0;
      });
    }
    expect(second.queue.calls).toEqual([]);
    open();
    await until('everything published', allPublished);
    await Promise.all([slow.stop(), second.stop()]);
    expect(places(arrived).toSorted()).toEqual(Array.from({ length: 10 }, (_, n) => `a${n}#1`));
    expect((await deliveriesOf(owner)).every(({ attempts }) => attempts === 0)).toBe(true);
  });

  it('like case 21: a lease lost in mid-call costs a repeat of that call, not of what was settled or had been fetched', async () => {
    await append(writer, ...Array.from({ length: 40 }, (_, n) => thing(`a${n}`)));
    const { answer: wait, open } = held([]);
    const clock = leaseClock('standing');
    const first = relay((_, call) => (call === first.queue.calls[0] ? ACCEPTED : wait(_, call)), {
      slot: 'first',
      clock,
      concurrency: 1,
    });
    await until('the first call settled, the second under way', async () => {
      return (await published()) === 10 && first.queue.calls.length === 2;
    });
    clock.freeze(31_000);
    await passLeaseTime(owner, 31);
    const second = relay(() => ACCEPTED, { slot: 'second' });
    await until('everything published', allPublished);
    open();
    await until('the answer of the late call', () => first.queue.accepted.length === 20);
    await Promise.all([first.stop(), second.stop()]);
    expect(first.queue.calls).toHaveLength(2);
    expect(second.queue.accepted).toHaveLength(30);
  });
});

describe('a relay that is frozen after it looked at its lease', () => {
  it.each([
    ['accepted', ACCEPTED],
    ['refused', refused('Odd')],
    ['refused for good', refused('InvalidMessageContents')],
  ])(
    'case 55: sends late, after another has sent and settled, and is %s: order holds, and what is published stays so',
    async (_what, late) => {
      const arrived: Message[] = [];
      const { answer, open } = held(arrived, late);
      const frozen = relay((message, call) => (message.groupId === 'fine' ? ACCEPTED : answer(message, call)), {
        slot: 'frozen',
        clock: leaseClock('standing'),
      });
      // Something passes first: else a refusal that nobody knows would count as an outage.
      await append(writer, thing('fine'));
      await until('the fine one published', async () => (await published()) === 1);
      await append(writer, ...numbered('x', 3).map(() => thing('x')));
      await until('the call', () => frozen.queue.calls.length === 2);
      await passLeaseTime(owner, 31);
      const other = relay(arriving(arrived), { slot: 'other' });
      await until('everything published', allPublished);
      open();
      await until('the late message', () => arrived.length > 3);
      await Promise.all([frozen.stop(), other.stop()]);
      expect(firstOf(arrived)).toEqual(numbered('x', 3));
      expect(orderBreaks(arrived)).toBe(0);
      expect(await deliveriesOf(owner)).toMatchObject(
        Array.from({ length: 4 }, () => ({ state: 'published', attempts: 0, last_error: null })),
      );
    },
  );

  it('like case 55: what it was refused does not set back the retries that another counted meanwhile', async () => {
    const { answer, open } = held([], refused('Odd'));
    const clock = leaseClock('standing');
    const frozen = relay((message, call) => (message.groupId === 'fine' ? ACCEPTED : answer(message, call)), {
      slot: 'frozen',
      clock,
    });
    await append(writer, thing('fine'));
    await until('the fine one published', async () => (await published()) === 1);
    await append(writer, thing('x'));
    await until('the call', () => frozen.queue.calls.length === 2);
    clock.freeze(31_000);
    await passLeaseTime(owner, 31);
    await append(writer, thing('fine'));
    const other = relay((message) => (message.groupId === 'x' ? refused('Even') : ACCEPTED), { slot: 'other' });
    const ofX = async () => (await deliveriesOf(owner)).find(({ place }) => place === 'x#1');
    await until('a refusal of the other', async () => (await ofX())?.attempts === 1);
    open();
    await Promise.all([frozen.stop(), other.stop()]);
    expect(await ofX()).toMatchObject({ state: 'pending', attempts: 1, last_error: 'Even: as the test wants it' });
  });
});

describe('a poison event in its backoff of a minute', () => {
  const attempts: Message[] = [];
  const answer: Answer = (message) => {
    if (message.groupId !== 'poison') return ACCEPTED;
    attempts.push(message);
    return refused('Odd');
  };
  /** In all partitions: what passes beside the poison event shows that the queue works, so that it is charged. */
  const appendOthers = () => append(writer, ...Array.from({ length: 128 }, (_, n) => thing(`fine-${n}`)));
  const nothingElseLeft = async (): Promise<boolean> =>
    (await count(`state <> 'published' and aggregate_key <> outbox.aggregate_key('thing', 'poison')`)) === 0;
  const backoffIsOver = () =>
    owner.query(`update outbox.delivery set due_at = due_at - interval '61 seconds' where attempts > 0`);

  /** Relays run side by side until each has a part and all others are sent, twice. */
  async function round(slots: readonly string[]): Promise<void> {
    await appendOthers();
    const relays = slots.map((slot) => relay(answer, { slot }));
    const parts = new Set(slots).size;
    await until('a part for each slot', async () => (await leaseCounts(owner)).length === parts);
    await until('the others sent', nothingElseLeft);
    await appendOthers();
    await until('the others sent again', nothingElseLeft);
    await Promise.all(relays.map((one) => one.stop()));
  }

  beforeEach(async () => {
    attempts.length = 0;
    await append(writer, thing('poison'), thing('poison'));
  });

  it('case 12: twelve relays: it is tried once a minute by all of them together', async () => {
    const slots = Array.from({ length: 12 }, (_, n) => `slot-${n}`);
    await round(slots);
    expect(attempts).toHaveLength(1);
    await round(slots);
    expect(attempts).toHaveLength(1);
    await backoffIsOver();
    await round(slots);
    expect(places(attempts)).toEqual(['poison#1', 'poison#1']);
    expect(await deliveriesOf(owner)).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ place: 'poison#1', state: 'pending', attempts: 2 }),
        expect.objectContaining({ place: 'poison#2', state: 'pending', attempts: 0 }),
      ]),
    );
  });

  it('like case 12: run after run of one schedule: the next one takes over the wait, too', async () => {
    for (let run = 0; run < 2; run += 1) await round(['schedule']);
    expect(attempts).toHaveLength(1);
    await backoffIsOver();
    for (let run = 0; run < 2; run += 1) await round(['schedule']);
    expect(attempts).toHaveLength(2);
  });
});
