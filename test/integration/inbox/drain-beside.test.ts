import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { acceptGap } from '../../../shared/inbox/index.ts';
import { counterConsumer, createEffects, effectsOf, heldOf } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { drainOf, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
const pool = database.pool('sealed_ledger');
const operator = database.pool('sealed_operator');
beforeAll(() => createEffects(database));

const message = (counter: string, sequence: number) => fifoRecord(counter, counterEnvelope({ counter, sequence }));

describe('going on with what is held', () => {
  it('leaves an aggregate to whoever is at it, and goes on with the others', async () => {
    const { handler } = counterConsumer({ name: 'beside', pool });
    await invoke(handler, [message('a', 2), message('a', 3), message('b', 2)]);
    for (const aggregateId of ['a', 'b']) {
      await acceptGap(operator, { consumer: 'beside', aggregateType: 'counter', aggregateId }, 'lost');
    }
    const other = await database.client('sealed_ledger');
    await other.query('begin');
    await other.query(`select from inbox.stream_position where consumer = 'beside' and aggregate_id = 'a' for update`);

    // It would wait for the lock until the statement's time is up.
    await drainOf(handler);
    expect(await effectsOf(pool, 'beside')).toEqual([{ counter: 'b', sequence: '2' }]);

    await other.query('rollback');
    await drainOf(handler);
    expect(await heldOf(pool, 'beside')).toEqual([]);
  });

  it('goes on where a reset has taken the position away', async () => {
    const { handler } = counterConsumer({ name: 'taken-away', pool });
    await invoke(handler, [message('a', 2)]);
    const migrator = database.pool('sealed_migrator');
    await migrator.query(`delete from inbox.stream_position where consumer = 'taken-away'`);
    await migrator.query(`update inbox.held_event set sequence = 1 where consumer = 'taken-away'`);
    await drainOf(handler);
    expect(await heldOf(pool, 'taken-away')).toEqual([]);
  });

  it('rests after each transaction of many as long as that took', async () => {
    const calls: { start: number; end: number }[] = [];
    const { handler } = counterConsumer({
      name: 'resting',
      pool,
      handlers: {
        'counter.added': {
          handleMany: async () => {
            const start = performance.now();
            await delay(100);
            calls.push({ start, end: performance.now() });
          },
        },
      },
    });
    const late = Array.from({ length: 50 }, (_, n) => message('long', n + 2));
    await invoke(handler, late);
    await acceptGap(operator, { consumer: 'resting', aggregateType: 'counter', aggregateId: 'long' }, 'lost');
    await drainOf(handler);

    expect(calls).toHaveLength(2);
    const [first, second] = calls as [(typeof calls)[0], (typeof calls)[0]];
    expect(second.start - first.end).toBeGreaterThanOrEqual(first.end - first.start);
  });
});
