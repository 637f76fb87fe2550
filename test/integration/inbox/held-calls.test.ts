import { randomUUID } from 'node:crypto';
import { describe, expect, it, vi } from 'vitest';
import { listHeldCalls, recordHeldCall, repeatHeldCall } from '../../../shared/inbox/index.ts';
import { createOnce } from '../../../shared/inbox/once.ts';
import { testDatabase } from '../../support/database.ts';
import { callOf, CONSUMER, deliver, type DeliveryOptions, providerPerTest } from '../../support/mail-delivery.ts';

const database = await testDatabase();
const pool = database.pool('sealed_ledger');
const operator = database.pool('sealed_operator');
const owner = database.pool('sealed_migrator');
const provider = providerPerTest();

/** Cannot be asked, and must not be called twice. */
const UNKNOWABLE: DeliveryOptions = { askProvider: false, unanswered: 'hold' };
const send = (eventId: string) => deliver(pool, provider.current, eventId, UNKNOWABLE);
const code = (wanted: string) => expect.objectContaining({ code: wanted });
const requests = () => provider.current.requests().length;
const place = (eventId: string) => ({ consumer: CONSUMER, eventId, name: 'mail' });

/** A call that was cut off, and whose event was delivered again. */
async function held(): Promise<string> {
  const eventId = randomUUID();
  provider.current.plan('act-and-drop');
  await expect(send(eventId)).rejects.toEqual(code('CALL_UNANSWERED'));
  await expect(send(eventId)).rejects.toEqual(code('CALL_HELD'));
  return eventId;
}

describe('a call of which nobody knows whether it happened', () => {
  it('is held for a person, and not made again meanwhile', async () => {
    const eventId = await held();
    await expect(send(eventId)).rejects.toEqual(code('CALL_HELD'));
    expect(requests()).toBe(1);
    expect(await listHeldCalls(operator)).toContainEqual({
      ...place(eventId),
      idempotencyKey: provider.current.requests()[0],
      reason: 'CALL_UNANSWERED',
      calls: 1,
      calledAt: expect.any(Date),
      heldAt: expect.any(Date),
    });
  });

  it('goes on with the answer that the person found', async () => {
    const eventId = await held();
    await recordHeldCall(operator, place(eventId), { id: 'found' }, 'seen at the provider');
    expect(await send(eventId)).toEqual({ id: 'found' });
    expect(requests()).toBe(1);
    await expect(recordHeldCall(operator, place(eventId), { id: 'other' }, 'r')).rejects.toEqual(code('NOT_IN_STATE'));
    expect(await send(eventId)).toEqual({ id: 'found' });
  });

  it('is made again with the same key where the person says so', async () => {
    const eventId = await held();
    await repeatHeldCall(operator, place(eventId), 'not there');
    await send(eventId);
    expect(requests()).toBe(2);
    expect(new Set(provider.current.requests()).size).toBe(1);
    await expect(repeatHeldCall(operator, place(eventId), 'r')).rejects.toEqual(code('NOT_IN_STATE'));
    expect(await callOf(database, eventId)).toMatchObject({ state: 'done', reason: null });
  });

  it('that is not there is neither recorded nor repeated', async () => {
    for (const nobody of [place(randomUUID()), { ...place(await held()), name: 'letter' }]) {
      await expect(recordHeldCall(operator, nobody, null, 'r')).rejects.toEqual(code('HELD_EVENT_UNKNOWN'));
      await expect(repeatHeldCall(operator, nobody, 'r')).rejects.toEqual(code('HELD_EVENT_UNKNOWN'));
    }
  });

  it('is decided about with a reason, which the audit keeps beside the name of the person, without the answer', async () => {
    const eventId = await held();
    await expect(recordHeldCall(operator, place(eventId), null, ' ')).rejects.toEqual(code('OPERATION_ARGUMENT'));
    await expect(recordHeldCall(operator, place(eventId), 'x'.repeat(16_383), 'r')).rejects.toEqual(
      code('OPERATION_ARGUMENT'),
    );
    await expect(send(eventId)).rejects.toEqual(code('CALL_HELD'));
    await recordHeldCall(operator, place(eventId), { id: 'canary' }, 'seen');
    const { rows } = await owner.query(`select actor, act, detail from inbox.audit where detail ->> 'event_id' = $1`, [
      eventId,
    ]);
    expect(rows).toEqual([
      {
        actor: 'sealed_operator',
        act: 'record_held_call',
        detail: { consumer: CONSUMER, event_id: eventId, name: 'mail', why: 'seen' },
      },
    ]);
  });

  it('lets its event be tried again, where that is held because it kept failing', async () => {
    const hold = (eventId: string, reason: string) =>
      owner.query(
        `insert into inbox.held_event (consumer, event_id, aggregate_type, aggregate_id, sequence, reason, body, attempts, due_at)
         values ($1, $2, 'invoice', '1', 1, $3, '{}', 5, 'infinity')`,
        [CONSUMER, eventId, reason],
      );
    const wanted = async (eventId: string) => {
      const { rows } = await owner.query('select wanted, attempts from inbox.held_event where event_id = $1', [
        eventId,
      ]);
      return rows;
    };
    for (const decide of [
      (eventId: string) => recordHeldCall(operator, place(eventId), null, 'r'),
      (eventId: string) => repeatHeldCall(operator, place(eventId), 'r'),
    ]) {
      const [failing, late] = [await held(), await held()];
      await hold(failing, 'failing');
      await hold(late, 'late');
      await decide(failing);
      await decide(late);
      expect(await wanted(failing)).toEqual([{ wanted: 'retry', attempts: 0 }]);
      expect(await wanted(late)).toEqual([{ wanted: null, attempts: 5 }]);
    }
  });
});

describe('the right to decide about held calls', () => {
  const acts = [
    'select inbox.list_held_calls()',
    `select inbox.record_held_call('c', gen_random_uuid(), 'n', '{}', 'r')`,
    `select inbox.repeat_held_call('c', gen_random_uuid(), 'n', 'r')`,
  ];
  const inner = `select inbox.take_held_call('a', 'c', gen_random_uuid(), 'n', 'r')`;

  it.each([
    'sealed_ledger',
    'sealed_api',
    'sealed_relay',
    'sealed_monitor',
    'sealed_janitor',
    'sealed_writer',
  ] as const)('is not that of %s', async (user) => {
    for (const sql of [...acts, inner]) {
      await expect(database.pool(user, 1).query(sql)).rejects.toEqual(code('42501'));
    }
  });

  it('is all that an operator has: neither the table nor what the acts are made of', async () => {
    for (const sql of ['select from inbox.external_call', 'update inbox.external_call set name = name', inner]) {
      await expect(operator.query(sql)).rejects.toEqual(code('42501'));
    }
  });
});

describe('an answer that cannot be recorded', () => {
  const cyclic: Record<string, unknown> = {};
  cyclic['self'] = cyclic;

  it.each<[string, unknown]>([
    ['is too large', 'x'.repeat(16_384)],
    ['is too large in bytes, not in characters', 'ş'.repeat(8_200)],
    ['is no JSON', 1n],
    ['has no end', cyclic],
  ])('because it %s holds the call, which happened', async (_, answer) => {
    const eventId = randomUUID();
    const call = vi.fn<() => Promise<unknown>>(async () => answer);
    const attempt = () =>
      createOnce({ connections: pool, consumer: CONSUMER, eventId, remainingMs: () => 100_000 })('mail', call, {
        unanswered: 'retry',
      });
    await expect(attempt()).rejects.toEqual(code('ANSWER_NOT_RECORDABLE'));
    await expect(attempt()).rejects.toEqual(code('CALL_HELD'));
    expect(call).toHaveBeenCalledTimes(1);
    expect(await callOf(database, eventId)).toMatchObject({ state: 'held', reason: 'ANSWER_NOT_RECORDABLE' });
  });

  it('is not one of the largest size that is kept', async () => {
    const answer = 'x'.repeat(16_382);
    const once = createOnce({
      connections: pool,
      consumer: CONSUMER,
      eventId: randomUUID(),
      remainingMs: () => 100_000,
    });
    expect(await once('mail', async () => answer, { unanswered: 'hold' })).toBe(answer);
  });
});
