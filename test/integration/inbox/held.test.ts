import { beforeAll, describe, expect, it } from 'vitest';
import { drainHeld, listHeld, releaseHeld } from '../../../shared/inbox/index.ts';
import {
  counterConsumer,
  createEffects,
  effectHandler,
  effectsOf,
  heldOf,
  inboxOf,
} from '../../support/counter-consumer.ts';
import { counterEnvelope, type CounterEvent } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { contextFor, contextWith, drainOf, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));

const message = (counter: string, sequence: number, rest: Partial<CounterEvent> = {}) =>
  fifoRecord(counter, counterEnvelope({ counter, sequence, ...rest }));

/** A handler that fails for the events that `bad` names, as long as it does. */
function failing(consumer: string, whenFailing?: 'block' | 'skip') {
  const bad = new Set<string>();
  let calls = 0;
  const handle: ReturnType<typeof effectHandler> = async (event, context) => {
    calls += 1;
    await effectHandler(consumer)(event, context);
    if (bad.has(`${event.aggregateId} ${event.sequence}`)) throw new TypeError('canary');
  };
  const steps = whenFailing === undefined ? { handle } : { handle, whenFailing };
  return { bad, handlers: { 'counter.added': steps }, calls: () => calls };
}

const sequencesOf = async (pool: Parameters<typeof effectsOf>[0], name: string) =>
  (await effectsOf(pool, name)).map(({ sequence }) => Number(sequence));
const reasonsOf = async (pool: Parameters<typeof effectsOf>[0], name: string) =>
  (await heldOf(pool, name)).map(({ sequence, reason }) => `${sequence} ${reason}`);

describe('an event whose handler fails', () => {
  it('goes back to the queue until its last attempt, then it is held and those behind it with it', async () => {
    const pool = database.pool('sealed_ledger');
    const { bad, handlers } = failing('blocks');
    const { handler, metrics, log } = counterConsumer({ name: 'blocks', pool, handlers, attempts: 3 });
    bad.add('a 2');
    const [one, two, three, other] = [message('a', 1), message('a', 2), message('a', 3), message('b', 1)];
    expect(await invoke(handler, [one, two, three, other])).toEqual([two.messageId, three.messageId]);
    expect(await invoke(handler, [two, three])).toEqual([two.messageId, three.messageId]);
    expect(await heldOf(pool, 'blocks')).toEqual([]);
    expect(await invoke(handler, [two, three])).toEqual([]);
    expect(await reasonsOf(pool, 'blocks')).toEqual(['2 failing', '3 blocked']);
    expect(metrics.sum('Held', { Reason: 'failing' })).toBe(1);
    expect(log.lines.findLast(({ level }) => level === 'error')).toMatchObject({
      fields: { held: 'failing', class: 'handler', code: 'HANDLER_FAILED', errorName: 'TypeError', attempts: 3 },
    });
    // A redelivery meets the held row; later ones queue up behind it.
    expect(await invoke(handler, [two, message('a', 4), message('b', 2)])).toEqual([]);
    expect(await reasonsOf(pool, 'blocks')).toEqual(['2 failing', '3 blocked', '4 blocked']);
    expect((await effectsOf(pool, 'blocks')).filter(({ counter }) => counter === 'b')).toHaveLength(2);
    const { rows } = await pool.query(
      `select attempts, last_error, body from inbox.held_event where consumer = 'blocks' and reason = 'failing'`,
    );
    expect(rows).toEqual([{ attempts: 3, last_error: 'HANDLER_FAILED TypeError', body: two.body }]);
    expect(await inboxOf(pool, 'blocks', 'a')).toEqual({ processed: 3, position: '1' });
  });

  it('is counted no more when a later one makes it old, in mode latest', async () => {
    const pool = database.pool('sealed_ledger');
    const { bad, handlers } = failing('overtaken');
    const { handler } = counterConsumer({ name: 'overtaken', mode: 'latest', pool, handlers, attempts: 3 });
    bad.add('a 1');
    const one = message('a', 1);
    expect(await invoke(handler, [one])).toEqual([one.messageId]);
    expect(await invoke(handler, [message('a', 2)])).toEqual([]);
    expect(await invoke(handler, [one])).toEqual([]);
    const { rows } = await pool.query(`select reason from inbox.held_event where consumer = 'overtaken'`);
    expect(rows).toEqual([]);
  });

  it.each(['strict', 'latest', 'any'] as const)(
    'lets later ones pass where its handler says skip, in mode %s',
    async (mode) => {
      const name = `skips-${mode}`;
      const pool = database.pool('sealed_ledger');
      const { bad, handlers } = failing(name, 'skip');
      const { handler } = counterConsumer({ name, mode, pool, handlers, attempts: 1 });
      bad.add('a 2');
      expect(await invoke(handler, [message('a', 1), message('a', 2), message('a', 3)])).toEqual([]);
      expect(await reasonsOf(pool, name)).toEqual(['2 failing']);
      expect(await sequencesOf(pool, name)).toEqual([1, 3]);
    },
  );

  it.each(['latest', 'any'] as const)(
    'holds later ones back where its handler says block, in mode %s',
    async (mode) => {
      const name = `blocks-${mode}`;
      const pool = database.pool('sealed_ledger');
      const { bad, handlers } = failing(name, 'block');
      const { handler } = counterConsumer({ name, mode, pool, handlers, attempts: 1 });
      bad.add('a 2');
      expect(await invoke(handler, [message('a', 1), message('a', 2), message('a', 3)])).toEqual([]);
      expect(await reasonsOf(pool, name)).toEqual(['2 failing', '3 blocked']);
      expect(await sequencesOf(pool, name)).toEqual([1]);
    },
  );

  it('is forgotten when it succeeds before its last attempt', async () => {
    const pool = database.pool('sealed_ledger');
    const { bad, handlers } = failing('recovers');
    const { handler } = counterConsumer({ name: 'recovers', pool, handlers, attempts: 3 });
    bad.add('a 1');
    const one = message('a', 1);
    expect(await invoke(handler, [one])).toEqual([one.messageId]);
    bad.clear();
    expect(await invoke(handler, [one])).toEqual([]);
    const { rows } = await pool.query(`select from inbox.held_event where consumer = 'recovers'`);
    expect(rows).toEqual([]);
    expect(await sequencesOf(pool, 'recovers')).toEqual([1]);
  });

  it('is not charged for what the database does', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler } = counterConsumer({
      name: 'uncharged',
      pool,
      attempts: 1,
      handlers: {
        'counter.added': async () => {
          throw Object.assign(new Error('deadlock'), { code: '40P01' });
        },
      },
    });
    const one = message('a', 1);
    for (let time = 0; time < 3; time += 1) expect(await invoke(handler, [one])).toEqual([one.messageId]);
    const { rows } = await pool.query(`select from inbox.held_event where consumer = 'uncharged'`);
    expect(rows).toEqual([]);
  });
});

describe('what is held', () => {
  it('drains in order when its gap closes, and goes on in later invocations where time is short', async () => {
    const pool = database.pool('sealed_ledger', 2);
    let remaining = 10_000;
    const { handler, options } = counterConsumer({
      name: 'drains',
      pool,
      handlers: {
        'counter.added': async (event, context) => {
          await effectHandler('drains')(event, context);
          // Enough time to finish what closes the gap, and none to start more.
          remaining = 50;
        },
      },
    });
    const early = Array.from({ length: 60 }, (_, index) => message('a', index + 2));
    for (let from = 0; from < 60; from += 10) {
      expect(await invoke(handler, early.slice(from, from + 10).toReversed())).toEqual([]);
    }
    expect(await heldOf(pool, 'drains')).toHaveLength(60);
    const context = contextWith(() => remaining);
    expect(await invoke(handler, [message('a', 1)], context)).toEqual([]);
    expect(await heldOf(pool, 'drains')).toHaveLength(60);
    // No message comes any more: a schedule asks.
    expect(await drainHeld(options, contextFor(30_000))).toBe(60);
    expect(await heldOf(pool, 'drains')).toEqual([]);
    expect(await sequencesOf(pool, 'drains')).toEqual(Array.from({ length: 61 }, (_, index) => index + 1));
    expect(await inboxOf(pool, 'drains', 'a')).toEqual({ processed: 61, position: '61' });
  });

  it.each([
    ['fails when it was released', {}, 'failing'],
    ['can not be read', { version: 9 }, 'unknown-version'],
    ['is too old', { time: '2020-01-01T00:00:00Z' }, 'too-old'],
  ])(
    "stands in nobody's way where its aggregate has passed it: one that comes late and %s",
    async (_what, event, reason) => {
      const pool = database.pool('sealed_ledger');
      const name = `passed-${reason}`;
      const { bad, handlers } = failing(name);
      const { handler } = counterConsumer({ name, pool, handlers, attempts: 1, startingPoint: 'first-seen' });
      expect(await invoke(handler, [message('a', 2), message('a', 1, event)])).toEqual([]);
      if (reason === 'failing') {
        bad.add('a 1');
        const operator = database.pool('sealed_operator');
        const { held } = await listHeld(operator, { consumer: name });
        await releaseHeld(operator, name, held[0]?.eventId ?? '', 'it is wanted');
        await drainOf(handler);
      }
      expect(await reasonsOf(pool, name)).toEqual([`1 ${reason}`]);
      expect(await invoke(handler, [message('a', 3)])).toEqual([]);
      expect(await sequencesOf(pool, name)).toEqual([2, 3]);
      expect(await reasonsOf(pool, name)).toEqual([`1 ${reason}`]);
    },
  );

  it('drains at once where the event that closes its gap comes behind it in the same batch', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler } = counterConsumer({ name: 'closes-behind', pool });
    // The first batch of a process also looks for what nothing points at; the next ten seconds do not.
    expect(await invoke(handler, [message('a', 1)])).toEqual([]);
    expect(await invoke(handler, [message('a', 3), message('a', 2)])).toEqual([]);
    expect(await sequencesOf(pool, 'closes-behind')).toEqual([1, 2, 3]);
    expect(await heldOf(pool, 'closes-behind')).toEqual([]);
  });

  it('drains at once behind one that can not be read and is passed over', async () => {
    const pool = database.pool('sealed_ledger');
    const steps = { handle: effectHandler('passed-over'), whenFailing: 'skip' as const };
    const { handler } = counterConsumer({ name: 'passed-over', pool, handlers: { 'counter.added': steps } });
    expect(await invoke(handler, [message('a', 1), message('a', 3)])).toEqual([]);
    expect(await invoke(handler, [message('a', 2, { version: 9 })])).toEqual([]);
    expect(await sequencesOf(pool, 'passed-over')).toEqual([1, 3]);
    expect(await reasonsOf(pool, 'passed-over')).toEqual(['2 unknown-version']);
  });

  it('drains by the request of a schedule to the consumer itself, many aggregates side by side', async () => {
    const pool = database.pool('sealed_ledger', 3);
    const { handler } = counterConsumer({ name: 'scheduled', pool });
    const counters = Array.from({ length: 30 }, (_, index) => `c${index}`);
    for (const counter of counters) await invoke(handler, [message(counter, 2), message(counter, 3)]);
    await pool.query(`update inbox.stream_position set sequence = 1 where consumer = 'scheduled'`);
    await drainOf(handler);
    expect(await heldOf(pool, 'scheduled')).toEqual([]);
    for (const counter of counters) {
      const done = (await effectsOf(pool, 'scheduled')).filter((effect) => effect.counter === counter);
      expect(done.map(({ sequence }) => sequence)).toEqual(['2', '3']);
    }
  });

  it('fails one by one while it drains: those before it are through, it waits longer each time, then for a person', async () => {
    const pool = database.pool('sealed_ledger');
    const { bad, handlers, calls } = failing('drain-fails');
    const { handler } = counterConsumer({ name: 'drain-fails', pool, handlers, attempts: 2 });
    bad.add('a 3');
    await invoke(handler, [message('a', 2), message('a', 3), message('a', 4)]);
    expect(await invoke(handler, [message('a', 1)])).toEqual([]);
    expect(await sequencesOf(pool, 'drain-fails')).toEqual([1, 2]);
    expect(await reasonsOf(pool, 'drain-fails')).toEqual(['3 failing', '4 gap']);
    const before = calls();
    await drainOf(handler);
    expect(calls()).toBe(before);
    const migrator = await database.client('sealed_migrator');
    const due = async () =>
      (
        await pool.query(
          `select due_at::text from inbox.held_event where consumer = 'drain-fails' and reason = 'failing'`,
        )
      ).rows[0].due_at;
    await migrator.query(
      `update inbox.held_event set due_at = now() where consumer = 'drain-fails' and reason = 'failing'`,
    );
    await drainOf(handler);
    expect(await due()).toBe('infinity');
    const last = calls();
    await drainOf(handler);
    expect(calls()).toBe(last);
  });

  it('is applied once, when two functions drain it at the same time', async () => {
    const name = 'drain-racing';
    const functions = [1, 2, 3].map(() => counterConsumer({ name, pool: database.pool('sealed_ledger', 2) }));
    const first = functions[0]!.handler;
    for (let counter = 0; counter < 10; counter += 1) {
      await invoke(
        first,
        [2, 3, 4, 5].map((sequence) => message(`c${counter}`, sequence)),
      );
    }
    const pool = database.pool('sealed_ledger');
    await pool.query('update inbox.stream_position set sequence = 1 where consumer = $1', [name]);
    await Promise.all(functions.map(({ handler }) => drainOf(handler)));
    await drainOf(first);
    expect(await heldOf(pool, name)).toEqual([]);
    const { rows } = await pool.query('select count(*)::int as n from effect where consumer = $1', [name]);
    expect(rows).toEqual([{ n: 40 }]);
  });

  it('runs the before step of a held event outside of any transaction, and once its turn has come', async () => {
    const pool = database.pool('sealed_ledger', 1);
    const seen: string[] = [];
    const { handler } = counterConsumer({
      name: 'before-held',
      pool,
      handlers: {
        'counter.added': {
          before: async (event) => {
            // The only connection is free.
            await pool.query('select 1');
            seen.push(`before ${event.sequence}`);
            return event.sequence;
          },
          handle: async (event, { before }) => void seen.push(`handle ${event.sequence} with ${String(before)}`),
        },
      },
    });
    await invoke(handler, [message('a', 3), message('a', 2)]);
    expect(seen).toEqual([]);
    expect(await invoke(handler, [message('a', 1)])).toEqual([]);
    expect(seen).toEqual([1, 2, 3].flatMap((n) => [`before ${n}`, `handle ${n} with ${n}`]));
  });

  it('by age is never applied by itself, not even when it is drained', async () => {
    const pool = database.pool('sealed_ledger');
    const { handler } = counterConsumer({ name: 'aged', pool, windowDays: 10 });
    const old = new Date(Date.now() - 11 * 86_400_000).toISOString();
    expect(await invoke(handler, [message('a', 1, { time: old })])).toEqual([]);
    expect(await invoke(handler, [message('a', 2)])).toEqual([]);
    await drainOf(handler);
    expect(await reasonsOf(pool, 'aged')).toEqual(['1 too-old', '2 blocked']);
    expect(await effectsOf(pool, 'aged')).toEqual([]);
  });
});
