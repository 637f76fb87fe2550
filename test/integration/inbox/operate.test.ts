import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { acceptGap, listHeld, releaseHeld, retryHeld, showHeld, skipHeld } from '../../../shared/inbox/index.ts';
import { counterConsumer, createEffects, effectHandler, effectsOf, heldOf } from '../../support/counter-consumer.ts';
import { counterEnvelope, type CounterEvent } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { drainOf, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));

const message = (counter: string, sequence: number, rest: Partial<CounterEvent> = {}) =>
  fifoRecord(counter, counterEnvelope({ counter, sequence, ...rest }));

/** A consumer whose handler fails for sequence 2 as long as it is told to, and an operator. */
async function scene(
  name: string,
  rest: { unknownTypes?: 'hold'; startingPoint?: 'first-seen'; windowDays?: number } = {},
) {
  const pool = database.pool('sealed_ledger');
  const operator = await database.client('sealed_operator');
  const state = { failing: true };
  const { handler } = counterConsumer({
    name,
    pool,
    attempts: 1,
    ...rest,
    handlers: {
      'counter.added': async (event, context) => {
        await effectHandler(name)(event, context);
        if (state.failing && event.sequence === 2n) throw new TypeError('canary');
      },
    },
  });
  const only = async (reason: string) => {
    const { held } = await listHeld(operator, { consumer: name });
    const found = held.find((event) => event.reason === reason);
    if (found === undefined) throw new Error(`nothing is held as ${reason}`);
    return found.eventId;
  };
  const applied = async () => (await effectsOf(pool, name)).map(({ sequence }) => Number(sequence));
  const held = async () => (await heldOf(pool, name)).map(({ sequence, reason }) => `${sequence} ${reason}`);
  return { pool, operator, state, handler, only, applied, held, name };
}

describe('an operator', () => {
  it('lists what is held, a page at a time, and sees why and where, but not what', async () => {
    const { operator, handler, name } = await scene('listed');
    await invoke(handler, [
      message('a', 1),
      message('a', 2, { data: { amount: 1, secret: 'canary' } }),
      message('a', 3),
    ]);
    await invoke(handler, [message('b', 4)]);
    const first = await listHeld(operator, { consumer: name, limit: 2 });
    const second = await listHeld(operator, { consumer: name, limit: 2, after: first.next ?? '' });
    expect([...first.held, ...second.held]).toMatchObject([
      {
        consumer: name,
        type: 'counter.added',
        aggregateType: 'counter',
        aggregateId: 'a',
        sequence: 2n,
        reason: 'failing',
        attempts: 1,
        lastError: 'HANDLER_FAILED TypeError',
        blockedBehind: 1,
      },
      { sequence: 3n, reason: 'blocked', blockedBehind: 0 },
      { aggregateId: 'b', sequence: 4n, reason: 'gap' },
    ]);
    expect(second.next).toBeNull();
    expect((await listHeld(operator, { reason: 'gap', consumer: name })).held).toHaveLength(1);
    const shown = await showHeld(operator, name, first.held[0]!.eventId);
    expect(shown).toMatchObject({
      reason: 'failing',
      position: 1n,
      expected: 2n,
      blocks: true,
      body: null,
      dueAt: 'infinity',
    });
    expect(JSON.stringify({ ...shown, sequence: '', position: '', expected: '' })).not.toContain('canary');
    expect((await showHeld(operator, name, shown.eventId, { withBody: true })).body).toContain('canary');
  });

  it('has a corrected handler try again: what waited behind follows in order', async () => {
    const { operator, handler, state, only, applied, held, name } = await scene('retried');
    await invoke(
      handler,
      [1, 2, 3, 4].map((sequence) => message('a', sequence)),
    );
    state.failing = false;
    await retryHeld(operator, name, await only('failing'), 'corrected');
    await drainOf(handler);
    expect(await held()).toEqual([]);
    expect(await applied()).toEqual([1, 2, 3, 4]);
  });

  it('skips a poison event: what waited behind goes on, a redelivery is a repeat', async () => {
    const { operator, handler, only, applied, held, name } = await scene('skipped');
    const poison = message('a', 2);
    await invoke(handler, [message('a', 1), poison, message('a', 3)]);
    expect(await skipHeld(operator, name, await only('failing'), 'never mind')).toBe(true);
    await drainOf(handler);
    expect(await invoke(handler, [poison, message('a', 4)])).toEqual([]);
    expect(await held()).toEqual([]);
    expect(await applied()).toEqual([1, 3, 4]);
  });

  it('mode latest: skips a later one, and an older one that is tried again still counts: nothing came of the later', async () => {
    const name = 'skipped-latest';
    const pool = database.pool('sealed_ledger');
    const operator = await database.client('sealed_operator');
    let failing = true;
    const { handler } = counterConsumer({
      name,
      pool,
      mode: 'latest',
      attempts: 1,
      handlers: {
        'counter.added': {
          whenFailing: 'skip',
          handle: async (event, context) => {
            await effectHandler(name)(event, context);
            if (failing && event.sequence > 1n) throw new TypeError('no');
          },
        },
      },
    });
    await invoke(handler, [message('a', 1), message('a', 2), message('a', 3)]);
    const { held } = await listHeld(operator, { consumer: name });
    const [two, three] = [2n, 3n].map((sequence) => held.find((it) => it.sequence === sequence)?.eventId ?? '');
    failing = false;
    await skipHeld(operator, name, three!, 'never mind');
    await retryHeld(operator, name, two!, 'corrected');
    await drainOf(handler);
    expect((await effectsOf(pool, name)).map(({ sequence }) => Number(sequence))).toEqual([1, 2]);
    expect(await heldOf(pool, name)).toEqual([]);
  });

  it('skips one that is not at the head in its turn', async () => {
    const { operator, handler, state, applied, held, name } = await scene('skipped-later');
    state.failing = false;
    const four = randomUUID();
    await invoke(handler, [message('a', 1), message('a', 3), message('a', 4, { id: four }), message('a', 5)]);
    expect(await skipHeld(operator, name, four, 'wrong')).toBe(false);
    expect(await held()).toEqual(['3 gap', '4 gap', '5 gap']);
    await invoke(handler, [message('a', 2)]);
    expect(await held()).toEqual([]);
    expect(await applied()).toEqual([1, 2, 3, 5]);
  });

  it('accepts a gap: the consumer goes on behind it, and what comes after all is late', async () => {
    const { operator, handler, applied, held, name } = await scene('gap-accepted');
    await invoke(handler, [message('a', 1), message('a', 5), message('a', 6)]);
    const aggregate = { consumer: name, aggregateType: 'counter', aggregateId: 'a' };
    expect(await acceptGap(operator, aggregate, 'lost for good')).toBe(4n);
    await drainOf(handler);
    expect(await applied()).toEqual([1, 5, 6]);
    await invoke(handler, [message('a', 3)]);
    expect(await held()).toEqual(['3 late']);
    await expect(acceptGap(operator, aggregate, 'again')).rejects.toMatchObject({ code: 'NOT_IN_STATE' });
  });

  it('case 35: releases a late event, which is then applied once, out of order, and the position stays', async () => {
    const { operator, handler, only, applied, held, name, pool } = await scene('late-released', {
      startingPoint: 'first-seen',
    });
    const one = message('a', 1);
    await invoke(handler, [message('a', 3), one]);
    expect(await held()).toEqual(['1 late']);
    await drainOf(handler);
    expect(await applied()).toEqual([3]);
    await releaseHeld(operator, name, await only('late'), 'its effect does not depend on the order');
    await drainOf(handler);
    expect(await applied()).toEqual([3, 1]);
    expect(await invoke(handler, [one, message('a', 4)])).toEqual([]);
    expect(await applied()).toEqual([3, 1, 4]);
    const { rows } = await pool.query('select sequence from inbox.stream_position where consumer = $1', [name]);
    expect(rows).toEqual([{ sequence: '4' }]);
  });

  it('releases an event that is older than the window: it and those behind it are applied', async () => {
    const { operator, handler, only, applied, held, name, state } = await scene('aged-released', { windowDays: 5 });
    state.failing = false;
    const time = new Date(Date.now() - 6 * 86_400_000).toISOString();
    await invoke(handler, [message('a', 1, { time })]);
    await invoke(handler, [message('a', 2)]);
    await releaseHeld(operator, name, await only('too-old'), 'asked for');
    await drainOf(handler);
    expect(await held()).toEqual([]);
    expect(await applied()).toEqual([1, 2]);
  });

  it('has a message tried again that could not be read: it stays with its reason as long as it can not', async () => {
    const { operator, handler, only, held, name, applied } = await scene('unread');
    await invoke(handler, [message('a', 1, { version: 2 }), fifoRecord('x', 'no json')]);
    for (const reason of ['unknown-version', 'malformed']) {
      await retryHeld(operator, name, await only(reason), 'deployed');
    }
    await drainOf(handler);
    expect((await held()).toSorted()).toEqual(['0 malformed', '1 unknown-version']);
    expect((await listHeld(operator, { consumer: name })).held.map(({ wanted }) => wanted)).toEqual([null, null]);
    // After the deployment that knows the version.
    const migrator = await database.client('sealed_migrator');
    await migrator.query(
      `update inbox.held_event set body = replace(body, 'counter.added/2', 'counter.added/1') where consumer = $1`,
      [name],
    );
    await retryHeld(operator, name, await only('unknown-version'), 'deployed');
    expect(await skipHeld(operator, name, await only('malformed'), 'somebody else sent it')).toBe(true);
    await drainOf(handler);
    expect(await held()).toEqual([]);
    expect(await applied()).toEqual([1]);
  });

  it('is refused what makes no sense, and nothing is changed', async () => {
    const { operator, handler, only, held, name } = await scene('refused');
    await invoke(handler, [message('a', 1), message('a', 2), message('a', 3)]);
    const before = await held();
    const failing = await only('failing');
    const blocked = await only('blocked');
    const refusals: readonly (readonly [() => Promise<unknown>, string])[] = [
      [() => retryHeld(operator, name, blocked, 'r'), 'NOT_IN_STATE'],
      [() => releaseHeld(operator, name, failing, 'r'), 'NOT_IN_STATE'],
      [() => skipHeld(operator, name, randomUUID(), 'r'), 'HELD_EVENT_UNKNOWN'],
      [() => showHeld(operator, name, randomUUID()), 'HELD_EVENT_UNKNOWN'],
      [() => listHeld(operator, { consumer: 'nobody' }), 'HELD_EVENT_UNKNOWN'],
      [() => listHeld(operator, { limit: 0 }), 'OPERATION_ARGUMENT'],
      [() => listHeld(operator, { after: 'x' }), 'OPERATION_ARGUMENT'],
      [() => retryHeld(operator, name, failing, ' '), 'OPERATION_ARGUMENT'],
      [() => acceptGap(operator, { consumer: name, aggregateType: 'counter', aggregateId: 'a' }, 'r'), 'NOT_IN_STATE'],
      [
        () => acceptGap(operator, { consumer: name, aggregateType: 'counter', aggregateId: 'z' }, 'r'),
        'HELD_EVENT_UNKNOWN',
      ],
    ];
    for (const [refused, code] of refusals) await expect(refused()).rejects.toMatchObject({ code });
    const ledger = await database.client('sealed_ledger');
    await expect(skipHeld(ledger, name, failing, 'r')).rejects.toMatchObject({ code: 'OPERATION_FORBIDDEN' });
    await operator.query('begin isolation level repeatable read');
    await expect(retryHeld(operator, name, failing, 'r')).rejects.toMatchObject({ code: 'TRANSACTION_ISOLATION' });
    await operator.query('rollback');
    expect(await held()).toEqual(before);
  });

  it('leaves a trace of each act with name, reason and place, and without a payload', async () => {
    const { operator, handler, only, name } = await scene('audited');
    await invoke(handler, [message('a', 1), message('a', 2, { data: { amount: 1, secret: 'canary' } })]);
    const eventId = await only('failing');
    await showHeld(operator, name, eventId, { withBody: true });
    await retryHeld(operator, name, eventId, 'INC-7');
    await skipHeld(operator, name, eventId, 'INC-8');
    const migrator = await database.client('sealed_migrator');
    const { rows } = await migrator.query(
      `select actor, act, detail from inbox.audit where detail ->> 'consumer' = $1 order by number`,
      [name],
    );
    expect(rows).toMatchObject([
      { actor: 'sealed_operator', act: 'list_held', detail: { listed: 1 } },
      { act: 'show_held', detail: { event_id: eventId, with_body: true } },
      {
        act: 'retry_held',
        detail: { event_id: eventId, aggregate_id: 'a', sequence: 2, held_as: 'failing', why: 'INC-7' },
      },
      { act: 'skip_held', detail: { event_id: eventId, why: 'INC-8', done: true } },
    ]);
    expect(JSON.stringify(rows)).not.toContain('canary');
  });
});
