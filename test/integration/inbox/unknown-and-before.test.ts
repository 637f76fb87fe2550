import { beforeAll, describe, expect, it } from 'vitest';
import { defineCatalogue, upcaster } from '../../../shared/events/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';
import { counterConsumer, createEffects, effectsOf, heldOf } from '../../support/counter-consumer.ts';
import { counterEnvelope, type CounterEvent } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { recordingLog, recordingMetrics } from '../../support/recorders.ts';
import { drainOf, fifoRecord, invoke } from '../../support/sqs-batch.ts';

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
    const schema = { type: 'object' } as const;
    const seen: unknown[] = [];
    const consumerWith = (newest: 1 | 2) =>
      eventConsumer({
        name: 'deployed-later',
        mode: 'strict',
        startingPoint: 'beginning',
        destination: 'all',
        catalogue: compileCatalogue(
          defineCatalogue({
            source: '/counters',
            destinations: { all: { kind: 'sqs-fifo', groupId: 'aggregate-id' } },
            events: {
              'counter.added': {
                aggregate: 'counter',
                versions: newest === 1 ? { 1: schema } : { 1: schema, 2: schema },
                upcast: newest === 1 ? {} : { 1: upcaster(schema, schema)((data) => data) },
                whenParked: 'block',
                destinations: ['all'],
              },
            },
          }),
        ),
        handlers: { 'counter.added': async ({ sequence }) => void seen.push(Number(sequence)) },
        pool,
        log: recordingLog(),
        metrics: recordingMetrics(),
      });
    const before = consumerWith(1);
    await invoke(before, [message('a', 1), message('a', 2, { version: 2 })]);
    await invoke(before, [message('a', 3)]);
    expect(await reasonsOf(pool, 'deployed-later')).toEqual(['2 unknown-version', '3 blocked']);
    await invoke(consumerWith(1), []);
    expect(seen).toEqual([1]);
    await invoke(consumerWith(2), []);
    expect(seen).toEqual([1, 2, 3]);
    expect(await heldOf(pool, 'deployed-later')).toEqual([]);

    // While a deployment goes on, a process of before may hold one after those of today have looked.
    const today = consumerWith(2);
    await invoke(today, []);
    await invoke(consumerWith(1), [message('a', 4, { version: 2 })]);
    expect(await reasonsOf(pool, 'deployed-later')).toEqual(['4 unknown-version']);
    await drainOf(today);
    expect(seen).toEqual([1, 2, 3, 4]);
    expect(await heldOf(pool, 'deployed-later')).toEqual([]);
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
