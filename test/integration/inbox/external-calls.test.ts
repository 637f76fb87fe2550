import { randomUUID } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import { createOnce } from '../../../shared/inbox/once.ts';
import { testDatabase } from '../../support/database.ts';
import {
  callOf,
  CONSUMER,
  deliver,
  deliverInVain,
  type DeliveryOptions,
  providerPerTest,
} from '../../support/mail-delivery.ts';

const database = await testDatabase();
const pool = database.pool('sealed_ledger');
const owner = database.pool('sealed_migrator');
const provider = providerPerTest();

const send = (eventId: string, options: DeliveryOptions = {}) => deliver(pool, provider.current, eventId, options);
/** What a delivery rejects with that is given up when the provider has the request. */
const sendInVain = (eventId: string, options: DeliveryOptions = {}) =>
  deliverInVain(pool, provider.current, eventId, options);
const code = (wanted: string) => expect.objectContaining({ code: wanted });
const requests = () => provider.current.requests().length;
const mails = () => provider.current.mails().length;
/** Lets the time of the database pass for one call. */
const pass = (eventId: string, column: 'called_at' | 'lease_expires_at', seconds: number) =>
  owner.query(`update inbox.external_call set ${column} = ${column} - $2 * interval '1 second' where event_id = $1`, [
    eventId,
    seconds,
  ]);

describe('a call of another system', () => {
  it('is made once, and later deliveries get the answer that was recorded', async () => {
    const eventId = randomUUID();
    const first = await send(eventId);
    expect(first).toMatchObject({ id: provider.current.mails()[0]?.id });
    expect(await send(eventId)).toEqual(first);
    expect(requests()).toBe(1);
    expect(provider.current.lookups()).toBe(0);
    expect(await callOf(database, eventId)).toMatchObject({ state: 'done', calls: 1 });
  });

  it('gives what toRecord keeps, the first time too', async () => {
    const eventId = randomUUID();
    const options: DeliveryOptions = { toRecord: () => ({ sent: true }) };
    expect(await send(eventId, options)).toEqual({ sent: true });
    expect(await send(eventId, options)).toEqual({ sent: true });
    const { rows } = await pool.query('select response from inbox.external_call where event_id = $1', [eventId]);
    expect(rows).toEqual([{ response: '{"sent":true}' }]);
  });

  it('that answers nothing answers null each time', async () => {
    const work = { connections: pool, consumer: CONSUMER, eventId: randomUUID(), remainingMs: () => 100_000 };
    const call = vi.fn<() => Promise<void>>(async () => {});
    for (const _ of [1, 2]) expect(await createOnce(work)('ping', call, { unanswered: 'retry' })).toBeNull();
    expect(call).toHaveBeenCalledTimes(1);
  });

  it('like case 25: holds no connection meanwhile, so that a pool of one serves others', async () => {
    const one = database.pool('sealed_ledger', 1);
    provider.current.plan('late');
    const delivery = deliver(one, provider.current, randomUUID());
    await vi.waitUntil(() => requests() === 1);
    expect({ total: one.totalCount, idle: one.idleCount, waiting: one.waitingCount }).toEqual({
      total: 1,
      idle: 1,
      waiting: 0,
    });
    const { rows } = await owner.query(
      `select count(*)::integer as open from pg_stat_activity where datname = current_database() and state like 'idle in transaction%'`,
    );
    expect(rows).toEqual([{ open: 0 }]);
    await one.query('select 1');
    expect(provider.current.release()).toBe(1);
    await delivery;
  });

  it('is not begun where the invocation is about to end, and leaves nothing behind', async () => {
    const eventId = randomUUID();
    await expect(send(eventId, { remainingMs: () => 1_400 })).rejects.toEqual(code('OUT_OF_TIME'));
    expect(await callOf(database, eventId)).toBeUndefined();
    expect(requests()).toBe(0);
  });

  it('that was reserved but not made for want of time is made by the next delivery, without a look-up', async () => {
    const eventId = randomUUID();
    let left = 10_000;
    const slow = {
      connect: async () => {
        const client = await pool.connect();
        left = 1_000;
        return client;
      },
    };
    await expect(send(eventId, { remainingMs: () => left, connections: slow })).rejects.toEqual(code('OUT_OF_TIME'));
    expect(await callOf(database, eventId)).toMatchObject({ state: 'reserved', called: false });
    await send(eventId);
    expect([requests(), provider.current.lookups()]).toEqual([1, 0]);
  });
});

describe('a provider that acts and does not answer', () => {
  it.each(['act-and-hang', 'act-and-drop'] as const)(
    'sends one mail: it is asked before it is called again (%s)',
    async (fault) => {
      const eventId = randomUUID();
      provider.current.plan(fault);
      expect(await sendInVain(eventId)).toEqual(code('CALL_UNANSWERED'));
      expect(await send(eventId)).toMatchObject({ id: provider.current.mails()[0]?.id });
      expect([requests(), mails()]).toEqual([1, 1]);
    },
  );

  it('sends one mail where it cannot be asked, because the key is the same', async () => {
    const eventId = randomUUID();
    provider.current.plan('act-and-drop');
    await expect(send(eventId, { askProvider: false })).rejects.toEqual(code('CALL_UNANSWERED'));
    await send(eventId, { askProvider: false });
    expect(mails()).toBe(1);
    expect(requests()).toBe(2);
    expect(new Set(provider.current.requests()).size).toBe(1);
    expect(await callOf(database, eventId)).toMatchObject({ state: 'done', calls: 2 });
  });

  it('is called again where its look-up is away and a repeat does no harm', async () => {
    const eventId = randomUUID();
    provider.current.plan('act-and-drop', 'lookup-fails');
    await expect(send(eventId)).rejects.toEqual(code('CALL_UNANSWERED'));
    await send(eventId);
    expect([requests(), mails(), provider.current.lookups()]).toEqual([2, 1, 1]);
  });

  it('is neither called again nor held for a person while its look-up is away and a repeat would do harm', async () => {
    const eventId = randomUUID();
    provider.current.plan('act-and-drop', 'lookup-fails');
    await expect(send(eventId, { unanswered: 'hold' })).rejects.toEqual(code('CALL_UNANSWERED'));
    await expect(send(eventId, { unanswered: 'hold' })).rejects.toEqual(code('CALL_UNSETTLED'));
    expect(await callOf(database, eventId)).toMatchObject({ state: 'reserved', called: true, leased: null });
    await send(eventId, { unanswered: 'hold' });
    expect([requests(), mails()]).toEqual([1, 1]);
  });
});

describe('a provider that acts late', () => {
  it('sends one mail: the repeat has the same key', async () => {
    const eventId = randomUUID();
    provider.current.plan('late');
    expect(await sendInVain(eventId)).toEqual(code('CALL_UNANSWERED'));
    const sent = await send(eventId);
    provider.current.release();
    expect(await send(eventId)).toEqual(sent);
    expect([requests(), mails()]).toEqual([2, 1]);
  });

  it('is not called again where a repeat would do harm: that nothing has happened yet does not count at once', async () => {
    const eventId = randomUUID();
    provider.current.plan('late');
    expect(await sendInVain(eventId, { unanswered: 'hold' })).toEqual(code('CALL_UNANSWERED'));
    await expect(send(eventId, { unanswered: 'hold' })).rejects.toEqual(code('CALL_UNSETTLED'));
    provider.current.release();
    await vi.waitUntil(() => mails() === 1);
    expect(await send(eventId, { unanswered: 'hold' })).toMatchObject({ id: provider.current.mails()[0]?.id });
    expect(requests()).toBe(1);
  });

  it('is called again when the call that was given up cannot happen any more', async () => {
    const eventId = randomUUID();
    provider.current.plan('late');
    expect(await sendInVain(eventId, { unanswered: 'hold' })).toEqual(code('CALL_UNANSWERED'));
    await pass(eventId, 'called_at', 60);
    await send(eventId, { unanswered: 'hold' });
    expect([requests(), mails()]).toEqual([2, 1]);
  });
});

describe('a provider that says no', () => {
  it('with a 500 is asked and called again', async () => {
    const eventId = randomUUID();
    provider.current.plan('fail');
    await expect(send(eventId)).rejects.toEqual(code('CALL_UNANSWERED'));
    await send(eventId);
    expect([requests(), mails(), provider.current.lookups()]).toEqual([2, 1, 1]);
  });

  it('for good is said to have refused, and is called anew by the next delivery', async () => {
    const eventId = randomUUID();
    provider.current.plan('refuse');
    await expect(send(eventId, { unanswered: 'hold' })).rejects.toEqual(code('CALL_REFUSED'));
    expect(await callOf(database, eventId)).toMatchObject({ state: 'reserved', called: false, leased: null });
    await send(eventId, { unanswered: 'hold' });
    expect([requests(), mails(), provider.current.lookups()]).toEqual([2, 1, 0]);
  });
});

it('a refusal says nothing of an earlier call that was not answered: the provider is asked about that one', async () => {
  const eventId = randomUUID();
  provider.current.plan('act-and-drop', 'lookup-fails', 'refuse');
  await expect(send(eventId)).rejects.toEqual(code('CALL_UNANSWERED'));
  await expect(send(eventId)).rejects.toEqual(code('CALL_REFUSED'));
  expect(await callOf(database, eventId)).toMatchObject({ state: 'reserved', called: true, leased: null });
  expect(await send(eventId)).toMatchObject({ id: provider.current.mails()[0]?.id });
  expect([requests(), mails(), provider.current.lookups()]).toEqual([2, 1, 2]);
});
