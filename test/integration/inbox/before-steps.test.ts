import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import {
  CallRefusedError,
  drainHeld,
  type Handlers,
  handlerSteps,
  listHeld,
  recordHeldCall,
  repeatHeldCall,
  type UnansweredPolicy,
} from '../../../shared/inbox/index.ts';
import { counterConsumer, createEffects, effectHandler, effectsOf, heldOf } from '../../support/counter-consumer.ts';
import { type counterCatalogue, counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { contextFor, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));
const operator = database.pool('sealed_operator');

type Answer = () => Promise<string>;

/** A consumer whose handler needs an answer from elsewhere; `answers` are what the next calls meet, then it is always `ok`. */
function calling(name: string, policy: UnansweredPolicy, answers: Answer[] = [], max = 5) {
  const calls: string[] = [];
  const got: unknown[] = [];
  const handlers: Handlers<typeof counterCatalogue> = {
    'counter.added': handlerSteps({
      before: (event, { once }) =>
        once(
          'ask',
          async () => {
            calls.push(event.sequence.toString());
            return (answers.shift() ?? (async () => 'ok'))();
          },
          { unanswered: policy },
        ),
      handle: async (event, context) => {
        got.push(context.before);
        await effectHandler(name)(event, context);
      },
    }),
  };
  const consumer = counterConsumer({ name, pool: database.pool('sealed_ledger', max), handlers, attempts: 3 });
  return { ...consumer, calls, got };
}
const message = (sequence: number, id: string = randomUUID()) =>
  fifoRecord('a', counterEnvelope({ counter: 'a', sequence, id }));
const applied = async (name: string) =>
  (await effectsOf(database.pool('sealed_ledger'), name)).map(({ sequence }) => Number(sequence));
const fails: Answer = () => Promise.reject(new Error('cut off'));
const refuses: Answer = () => Promise.reject(new CallRefusedError());

describe('a step before the transaction', () => {
  it('calls for each event of a batch, in order, with a pool of one', async () => {
    const { handler, calls, got } = calling('in-order', 'retry', [], 1);
    expect(await invoke(handler, [message(1), message(2), message(3)])).toEqual([]);
    expect([calls, got]).toEqual([
      ['1', '2', '3'],
      ['ok', 'ok', 'ok'],
    ]);
    expect(await applied('in-order')).toEqual([1, 2, 3]);
  });

  it.each(['reserved', 'recorded'])('charges nothing where the database is lost as the call is %s', async (when) => {
    const name = `lost-${when}`;
    const pool = database.pool('sealed_ledger', 1);
    const cut = (): unknown =>
      vi.spyOn(pool, 'connect').mockRejectedValueOnce(new Error('Connection terminated unexpectedly'));
    const { handler } = counterConsumer({
      name,
      pool,
      attempts: 1,
      handlers: {
        'counter.added': handlerSteps({
          before: async (_event, { once }) => {
            if (when === 'reserved') cut();
            return once('ask', async () => when === 'recorded' && cut() !== undefined, { unanswered: 'retry' });
          },
          handle: effectHandler(name),
        }),
      },
    });
    const lost = message(1);
    expect(await invoke(handler, [lost])).toEqual([lost.messageId]);
    expect(await heldOf(pool, name)).toEqual([]);
  });

  it('calls nobody for a repeat, nor for an event out of order until its turn has come', async () => {
    const { handler, calls } = calling('its-turn', 'retry');
    const [one, two] = [message(1), message(2)];
    expect(await invoke(handler, [two])).toEqual([]);
    expect(calls).toEqual([]);
    expect(await invoke(handler, [one])).toEqual([]);
    expect(await invoke(handler, [one, two])).toEqual([]);
    expect(calls).toEqual(['1', '2']);
    expect(await applied('its-turn')).toEqual([1, 2]);
  });

  it('that gets no answer costs its event no attempt, however often', async () => {
    const { handler, calls } = calling(
      'outage',
      'retry',
      Array.from({ length: 7 }, () => fails),
    );
    const one = message(1);
    for (let time = 0; time < 7; time += 1) expect(await invoke(handler, [one])).toEqual([one.messageId]);
    expect((await listHeld(operator, { consumer: 'outage' })).held).toEqual([]);
    expect(await invoke(handler, [one])).toEqual([]);
    expect(calls).toHaveLength(8);
  });

  it('that is refused costs an attempt, and its event is held after as many as the consumer has', async () => {
    const { handler } = calling('refused', 'retry', [refuses, refuses, refuses]);
    const one = message(1);
    for (const returned of [[one.messageId], [one.messageId], []])
      expect(await invoke(handler, [one])).toEqual(returned);
    expect((await listHeld(operator, { consumer: 'refused' })).held).toMatchObject([
      { reason: 'failing', attempts: 3, lastError: expect.stringContaining('CALL_REFUSED') },
    ]);
  });
});

describe('an event whose call waits for a person', () => {
  it.each([
    [
      'recorded',
      (call: Parameters<typeof repeatHeldCall>[1]) => recordHeldCall(operator, call, 'found', 'r'),
      'found',
      1,
    ],
    ['repeated', (call: Parameters<typeof repeatHeldCall>[1]) => repeatHeldCall(operator, call, 'r'), 'ok', 2],
  ] as const)(
    'is held at once, and applied with those behind it when the call is %s',
    async (name, decide, answer, made) => {
      const { handler, calls, got, options } = calling(name, 'hold', [fails]);
      const eventId = randomUUID();
      const [one, two] = [message(1, eventId), message(2)];
      expect(await invoke(handler, [one, two])).toEqual([one.messageId, two.messageId]);
      expect(await invoke(handler, [one, two])).toEqual([]);
      expect((await listHeld(operator, { consumer: name })).held).toMatchObject([
        { eventId, reason: 'failing', attempts: 1, lastError: expect.stringContaining('CALL_HELD') },
        { reason: 'blocked' },
      ]);
      expect(await applied(name)).toEqual([]);
      expect(await drainHeld(options, contextFor(30_000))).toBe(0);

      await decide({ consumer: name, eventId, name: 'ask' });
      expect(await drainHeld(options, contextFor(30_000))).toBe(2);
      expect(await applied(name)).toEqual([1, 2]);
      expect(got).toEqual([answer, 'ok']);
      expect(calls.filter((sequence) => sequence === '1')).toHaveLength(made);
    },
  );
});

it('an event whose turn comes between its step and its transaction comes again, and is not applied without an answer', async () => {
  const pool = database.pool('sealed_ledger');
  const first = counterConsumer({ name: 'meanwhile', pool });
  const { calls, got, options } = calling('meanwhile', 'retry');
  // The connection after the plain read, which finds that 2 is early: by then 1 is applied.
  let connections = 0;
  const meanwhile = Object.create(pool) as typeof pool;
  meanwhile.connect = (async () => {
    connections += 1;
    // 1: registration, 2: the plain read, 3: the transaction.
    if (connections === 3) expect(await invoke(first.handler, [message(1)])).toEqual([]);
    return pool.connect();
  }) as typeof pool.connect;
  const late = counterConsumer({ name: 'meanwhile', pool: meanwhile, handlers: options.handlers });
  const two = message(2);
  expect(await invoke(late.handler, [two])).toEqual([two.messageId]);
  expect(late.log.lines).toMatchObject([{ level: 'warn', fields: { class: 'retry', code: 'BEFORE_MISSING' } }]);
  expect([calls, got]).toEqual([[], []]);
  expect(await invoke(late.handler, [two])).toEqual([]);
  expect(got).toEqual(['ok']);
  expect(await applied('meanwhile')).toEqual([1, 2]);
});
