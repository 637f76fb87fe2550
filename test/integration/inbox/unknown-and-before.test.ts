import { beforeAll, describe, expect, it } from 'vitest';
import { counterConsumer, createEffects, effectsOf, heldOf } from '../../support/counter-consumer.ts';
import { counterEnvelope, type CounterEvent } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { drainOf, fifoRecord, invoke } from '../../support/sqs-batch.ts';
import { versionedConsumer } from '../../support/versioned-consumer.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));

const message = (counter: string, sequence: number, rest: Partial<CounterEvent> = {}) =>
  fifoRecord(counter, counterEnvelope({ counter, sequence, ...rest }));
const sequencesOf = async (pool: Parameters<typeof effectsOf>[0], name: string) =>
  (await effectsOf(pool, name)).map(({ sequence }) => Number(sequence));
const reasonsOf = async (pool: Parameters<typeof effectsOf>[0], name: string) =>
  (await heldOf(pool, name)).map(({ sequence, reason }) => `${sequence} ${reason}`);

describe('a type that the catalogue does not hold', () => {
  it.each([
    ['hold', ['2 unknown-type', '3 blocked'], [1]],
    ['ignore', [], [1, 3]],
  ] as const)('is treated as declared: %s', async (unknownTypes, held, applied) => {
    const name = `unknown-${unknownTypes}`;
    const pool = database.pool('sealed_ledger');
    const { handler, metrics } = counterConsumer({ name, pool, unknownTypes });
    const batch = [message('a', 1), message('a', 2, { type: 'counter.exploded' }), message('a', 3)];
    expect(await invoke(handler, batch)).toEqual([]);
    expect(await reasonsOf(pool, name)).toEqual(held);
    expect(await sequencesOf(pool, name)).toEqual(applied);
    expect(metrics.sum('Ignored')).toBe(unknownTypes === 'ignore' ? 1 : 0);
  });
});

describe('an event of a version that the consumer does not know', () => {
  it('like case 36: is applied by itself, in order, when a deployment knows it', async () => {
    const pool = database.pool('sealed_ledger');
    const name = 'deployed-later';
    const before = versionedConsumer({ name, pool, newest: 1 });
    await invoke(before.handler, [message('a', 1), message('a', 2, { version: 2 })]);
    await invoke(before.handler, [message('a', 3)]);
    expect(await reasonsOf(pool, name)).toEqual(['2 unknown-version', '3 blocked']);
    await invoke(versionedConsumer({ name, pool, newest: 1 }).handler, []);
    expect(before.seen).toEqual([1]);
    const today = versionedConsumer({ name, pool, newest: 2 });
    await invoke(today.handler, []);
    expect(today.seen).toEqual([2, 3]);
    expect(await heldOf(pool, name)).toEqual([]);

    // While a deployment goes on, a process of before may hold one after those of today have looked.
    await invoke(before.handler, [message('a', 4, { version: 2 })]);
    expect(await reasonsOf(pool, name)).toEqual(['4 unknown-version']);
    await drainOf(today.handler);
    expect(today.seen).toEqual([2, 3, 4]);
    expect(await heldOf(pool, name)).toEqual([]);
  });
});

describe('the before step', () => {
  it('runs neither for a repeat nor for an event that will be held, and never while a transaction is open', async () => {
    const pool = database.pool('sealed_ledger', 1);
    const called: string[] = [];
    const { handler } = counterConsumer({
      name: 'before',
      pool,
      handlers: {
        'counter.added': {
          before: async ({ sequence }) => {
            const { rows } = await pool.query(
              `select from pg_stat_activity where usename = current_user and state like 'idle in transaction%' and datname = current_database()`,
            );
            expect(rows).toEqual([]);
            called.push(`${sequence}`);
          },
          handle: async () => {},
        },
      },
    });
    const [one, two, four] = [message('a', 1), message('a', 2), message('a', 4)];
    expect(await invoke(handler, [one, two, four])).toEqual([]);
    expect(await invoke(handler, [one, two, four])).toEqual([]);
    expect(called).toEqual(['1', '2']);
    expect(await reasonsOf(pool, 'before')).toEqual(['4 gap']);
  });

  it('that fails is counted like the handler; one that finds nobody at the other end is not', async () => {
    const pool = database.pool('sealed_ledger');
    let code: string | undefined = 'ECONNREFUSED';
    const { handler } = counterConsumer({
      name: 'before-fails',
      pool,
      attempts: 1,
      handlers: {
        'counter.added': {
          before: async () => {
            throw Object.assign(new Error('no'), { code });
          },
          handle: async () => {},
        },
      },
    });
    const one = message('a', 1);
    expect(await invoke(handler, [one])).toEqual([one.messageId]);
    expect(await heldOf(pool, 'before-fails')).toEqual([]);
    code = undefined;
    expect(await invoke(handler, [one])).toEqual([]);
    expect(await reasonsOf(pool, 'before-fails')).toEqual(['1 failing']);
  });
});
