import { beforeAll, describe, expect, it } from 'vitest';
import { counterConsumer, createEffects, effectHandler, effectsOf, heldOf } from '../../support/counter-consumer.ts';
import { counterEnvelope, type CounterEvent } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { fifoRecord, invoke, standardRecord } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));

const message = (counter: string, sequence: number, rest: Partial<CounterEvent> = {}) =>
  fifoRecord(counter, counterEnvelope({ counter, sequence, ...rest }));

/** A handler that fails for one event as long as it is told to. */
function failingAt(consumer: string, counter: string, sequence: bigint) {
  const state = { failing: true };
  return {
    state,
    handlers: {
      'counter.added': async (event: Parameters<ReturnType<typeof effectHandler>>[0], context) => {
        await effectHandler(consumer)(event, context);
        if (state.failing && event.aggregateId === counter && event.sequence === sequence) throw new Error('no');
      },
    } satisfies Parameters<typeof counterConsumer>[0]['handlers'],
  };
}

describe('a batch', () => {
  it('case 33: returns a failed message and the rest of its group, and processes all other groups', async () => {
    const pool = database.pool('sealed_ledger');
    const { state, handlers } = failingAt('mixed', 'a', 2n);
    const { handler, metrics, log } = counterConsumer({ name: 'mixed', pool, handlers });
    const a = [message('a', 1), message('a', 2), message('a', 3), message('a', 4)] as const;
    const b = [message('b', 1), message('b', 2)] as const;
    const c = [message('c', 1), message('c', 2)] as const;

    const returned = await invoke(handler, [a[0], b[0], a[1], c[0], a[2], b[1], a[3], c[1]]);
    expect(returned).toEqual([a[1].messageId, a[2].messageId, a[3].messageId]);
    const done = await effectsOf(pool, 'mixed');
    for (const [counter, sequences] of [
      ['a', ['1']],
      ['b', ['1', '2']],
      ['c', ['1', '2']],
    ] as const) {
      expect(done.filter((effect) => effect.counter === counter).map(({ sequence }) => sequence)).toEqual(sequences);
    }
    expect(metrics.sum('Returned', { Class: 'handler' })).toBe(1);
    expect(metrics.sum('Returned', { Class: 'behind' })).toBe(2);
    expect(log.lines.filter(({ level }) => level !== 'debug')).toHaveLength(1);

    state.failing = false;
    expect(await invoke(handler, a.slice(1))).toEqual([]);
    const order = (await effectsOf(pool, 'mixed')).filter(({ counter }) => counter === 'a');
    expect(order.map(({ sequence }) => sequence)).toEqual(['1', '2', '3', '4']);
  });

  it('like case 36: keeps a message that is no envelope, under the id of the message, says why, and goes on with its group', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler, log } = counterConsumer({ name: 'foreign', pool });
    const foreign = fifoRecord('a', '{"canary": "of somebody else"}');
    const behind = message('a', 1);
    expect(await invoke(handler, [foreign, message('b', 1), behind])).toEqual([]);
    expect(await invoke(handler, [foreign])).toEqual([]);
    expect((await effectsOf(pool, 'foreign')).map(({ counter }) => counter).toSorted()).toEqual(['a', 'b']);
    const { rows } = await pool.query(
      `select event_id, reason, body, last_error from inbox.held_event where consumer = 'foreign'`,
    );
    expect(rows).toEqual([
      {
        event_id: foreign.messageId,
        reason: 'malformed',
        body: foreign.body,
        last_error: 'NOT_AN_ENVELOPE specversion is missing',
      },
    ]);
    expect(log.lines.slice(0, 1)).toMatchObject([
      {
        level: 'error',
        fields: {
          consumer: 'foreign',
          class: 'malformed',
          code: 'NOT_AN_ENVELOPE',
          reason: 'specversion is missing',
          messageId: foreign.messageId,
        },
      },
    ]);
    expect(JSON.stringify(log.lines)).not.toContain('canary');
  });

  it.each([
    ['a broken envelope', { time: 'yesterday' }, 'malformed', 'ENVELOPE_BROKEN'],
    ['a time that PostgreSQL cannot hold', { time: '0000-01-01T00:00:00Z' }, 'malformed', '22008'],
    ['data that breaks its schema', { data: { amount: 'canary' } }, 'malformed', 'EVENT_DATA_INVALID'],
    ['an unknown type', { type: 'counter.exploded' }, 'unknown-type', 'EVENT_TYPE_UNKNOWN'],
    ['a type that every object has', { type: 'constructor' }, 'unknown-type', 'EVENT_TYPE_UNKNOWN'],
    ['a known type of another source', { source: '/elsewhere' }, 'unknown-type', 'EVENT_TYPE_UNKNOWN'],
    ['an unknown version', { version: 2 }, 'unknown-version', 'EVENT_VERSION_UNKNOWN'],
  ] as const)('case 36: keeps %s with its own outcome', async (what, fault, failureClass, code) => {
    const name = `bad-${what.replaceAll(' ', '-').toLowerCase()}`;
    const pool = database.pool('sealed_ledger');
    const { handler, log, metrics } = counterConsumer({ name, pool });
    const bad = message('a', 1, fault);
    expect(await invoke(handler, [bad])).toEqual([]);
    expect(log.lines).toMatchObject([{ fields: { class: failureClass, code, messageId: bad.messageId } }]);
    expect(JSON.stringify(log.lines)).not.toContain('canary');
    expect(metrics.sum('Held', { Reason: failureClass })).toBe(1);
    expect(await effectsOf(pool, name)).toEqual([]);
    expect((await heldOf(pool, name)).map(({ reason }) => reason)).toEqual([failureClass]);
    const { rows } = await pool.query('select last_error, body from inbox.held_event where consumer = $1', [name]);
    expect(rows).toMatchObject([{ last_error: expect.stringContaining(code) as string, body: bad.body }]);
    expect(rows[0].last_error).not.toContain('canary');
  });

  it('works on as many groups at once as the pool has connections, and on one of a group', async () => {
    const pool = database.pool('sealed_ledger', 2);
    const running = new Set<string>();
    let most = 0;
    // Who waits for a connection in the pool's own queue is refused after the connection time-out.
    let waiting = 0;
    const { handler } = counterConsumer({
      name: 'bounded',
      pool,
      handlers: {
        'counter.added': async (event, { tx }) => {
          expect(running).not.toContain(event.aggregateId);
          running.add(event.aggregateId);
          most = Math.max(most, running.size);
          waiting = Math.max(waiting, pool.waitingCount);
          await tx.query('select pg_sleep(0.02)');
          running.delete(event.aggregateId);
        },
      },
    });
    const groups = ['a', 'b', 'c', 'd', 'e'];
    expect(
      await invoke(
        handler,
        [1, 2].flatMap((sequence) => groups.map((group) => message(group, sequence))),
      ),
    ).toEqual([]);
    expect(most).toBe(2);
    expect(waiting).toBe(0);
  });

  it('passes through a pool of one connection', async () => {
    const pool = database.pool('sealed_ledger', 1);
    const { handler } = counterConsumer({ name: 'pool-of-one', pool });
    expect(
      await invoke(
        handler,
        ['a', 'b', 'c'].map((group) => message(group, 1)),
      ),
    ).toEqual([]);
    expect(await effectsOf(pool, 'pool-of-one')).toHaveLength(3);
  });

  it('of a standard queue loses nothing but the failed message', async () => {
    const pool = database.pool('sealed_ledger');
    const { handlers } = failingAt('standard', 'a', 2n);
    const { handler } = counterConsumer({ name: 'standard', mode: 'any', pool, handlers });
    const records = [1, 2, 3].map((sequence) => standardRecord(counterEnvelope({ counter: 'a', sequence }), 'tenant'));
    expect(await invoke(handler, records)).toEqual([records[1]?.messageId]);
    expect((await effectsOf(pool, 'standard')).map(({ sequence }) => sequence).toSorted()).toEqual(['1', '3']);
  });

  it('writes nothing about a type without a handler in mode any', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler, metrics } = counterConsumer({ name: 'any-ignores', mode: 'any', pool });
    expect(await invoke(handler, [message('a', 1, { type: 'counter.renamed' })])).toEqual([]);
    expect(metrics.sum('Ignored')).toBe(1);
    const { rows } = await pool.query(`select from inbox.processed_event where consumer = 'any-ignores'`);
    expect(rows).toHaveLength(0);
  });
});
