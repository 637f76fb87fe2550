import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { counterConsumer, createEffects, effectsOf, heldOf } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { MODE_ROWS, MODES } from '../../support/mode-table.ts';
import { fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));

// Every cell of the table in docs/consumer.md.
describe.each(MODE_ROWS.flatMap(({ scenarios }) => scenarios))('case 59, 60 and their like: $when', (row) => {
  it.each(MODES)('in mode %s', async (mode) => {
    const expected = row[mode];
    const name = `${mode}-${randomUUID()}`;
    const pool = database.pool('sealed_ledger');
    const { handler, metrics } = counterConsumer({
      name,
      pool,
      mode,
      ...(row.startingPoint === undefined ? {} : { startingPoint: row.startingPoint }),
    });
    const ids = new Map<number | bigint, string>();
    for (const arrival of row.arrives) {
      const [as, sequence] = typeof arrival === 'object' ? Object.entries(arrival)[0]! : ['live', arrival];
      const id = ids.get(sequence) ?? randomUUID();
      ids.set(sequence, id);
      const type = as === 'skipped' ? 'outbox.skipped' : 'counter.added';
      const body = counterEnvelope({
        counter: 'a',
        sequence,
        id,
        type,
        ...(/replayed/i.test(as) && { replay: 7 }),
        ...(as.startsWith('unreadable') && { version: 9 }),
      });
      expect(await invoke(handler, [fifoRecord('a', body)])).toEqual([]);
    }
    expect((await effectsOf(pool, name)).map(({ sequence }) => BigInt(sequence))).toEqual(expected.applied.map(BigInt));
    expect((await heldOf(pool, name)).map(({ sequence, reason }) => `${sequence} ${reason}`)).toEqual(
      expected.held ?? [],
    );
    expect(metrics.sum('DroppedOlder')).toBe(expected.dropped ?? 0);
    expect(metrics.sum('Repeats')).toBe(expected.repeats ?? 0);
    expect(metrics.sum('Ignored')).toBe(expected.ignored ?? 0);
    expect(metrics.sum('Returned')).toBe(0);
  });
});

describe('mode latest', () => {
  it('case 60: keeps the higher sequence, whichever of two functions has it', async () => {
    const name = 'latest-racing';
    const functions = [1, 2].map(() =>
      counterConsumer({ name, mode: 'latest', pool: database.pool('sealed_ledger', 2) }),
    );
    for (let round = 0; round < 20; round += 1) {
      const messages = [1, 2].map((sequence) => fifoRecord('x', counterEnvelope({ counter: `c${round}`, sequence })));
      await Promise.all(functions.map(({ handler }, index) => invoke(handler, [messages[index % 2]!])));
    }
    const pool = database.pool('sealed_ledger');
    const { rows } = await pool.query(
      `select aggregate_id, sequence from inbox.stream_position where consumer = $1 and sequence <> 2`,
      [name],
    );
    expect(rows).toEqual([]);
    const order = await pool.query(
      `select counter from (select counter, sequence, max(sequence) over (partition by counter order by place) as high
         from effect where consumer = $1) e where sequence < high`,
      [name],
    );
    expect(order.rows).toEqual([]);
  });

  it('like case 60: waits for the transaction that has the higher one, then drops the lower', async () => {
    const name = 'latest-waits';
    const entered = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const pool = database.pool('sealed_ledger');
    const first = counterConsumer({
      name,
      mode: 'latest',
      pool,
      handlers: {
        'counter.added': async () => {
          entered.resolve();
          await go.promise;
        },
      },
    });
    const second = counterConsumer({ name, mode: 'latest', pool });
    const higher = invoke(first.handler, [fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 6 }))]);
    await entered.promise;
    const lower = invoke(second.handler, [fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 5 }))]);
    await expect
      .poll(async () => {
        const { rows } = await pool.query(
          `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
        );
        return rows.length;
      })
      .toBe(1);
    go.resolve();
    expect(await Promise.all([higher, lower])).toEqual([[], []]);
    expect(second.metrics.sum('DroppedOlder')).toBe(1);
    expect(await effectsOf(pool, name)).toEqual([]);
  });
});
