import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import type { Mode, StartingPoint } from '../../../shared/inbox/index.ts';
import { counterConsumer, createEffects, effectsOf, heldOf } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { fifoRecord, invoke } from '../../support/sqs-batch.ts';

const EPOCH = 2n ** 40n;
const database = await testDatabase();
beforeAll(() => createEffects(database));

/** What has happened when all has arrived, one message after the other. */
interface Outcome {
  readonly applied: readonly (number | bigint)[];
  /** Sequence and reason. */
  readonly held?: readonly string[];
  readonly dropped?: number;
  readonly repeats?: number;
  readonly ignored?: number;
}

interface Row {
  readonly when: string;
  readonly startingPoint?: StartingPoint;
  /** Sequences; `again` for the same event once more, `skipped` for a tombstone in its place. */
  readonly arrives: readonly (number | bigint | { readonly again: number } | { readonly skipped: number })[];
  readonly any: Outcome;
  readonly latest: Outcome;
  readonly strict: Outcome;
}

/** The table of docs/consumer.md, cell by cell. An unrouted type is refused when a strict consumer is built: the unit tests have it. */
const TABLE: readonly Row[] = [
  {
    when: 'a gap',
    arrives: [1, 3],
    any: { applied: [1, 3] },
    latest: { applied: [1, 3] },
    strict: { applied: [1], held: ['3 gap'] },
  },
  {
    when: 'a gap that closes',
    arrives: [1, 3, 4, 2],
    any: { applied: [1, 3, 4, 2] },
    latest: { applied: [1, 3, 4], dropped: 1 },
    strict: { applied: [1, 2, 3, 4] },
  },
  {
    when: 'a repeat',
    arrives: [1, 2, { again: 1 }, { again: 2 }],
    any: { applied: [1, 2], repeats: 2 },
    latest: { applied: [1, 2], repeats: 2 },
    strict: { applied: [1, 2], repeats: 2 },
  },
  {
    when: 'a repeat of what is held',
    arrives: [1, 3, { again: 3 }],
    any: { applied: [1, 3], repeats: 1 },
    latest: { applied: [1, 3], repeats: 1 },
    strict: { applied: [1], held: ['3 gap'], repeats: 1 },
  },
  {
    when: 'a late arrival',
    startingPoint: 'first-seen',
    arrives: [2, 1, 3],
    any: { applied: [2, 1, 3] },
    latest: { applied: [2, 3], dropped: 1 },
    strict: { applied: [2, 3], held: ['1 late'] },
  },
  {
    when: 'a redrive after its successors came',
    arrives: [2, 3, 1],
    any: { applied: [2, 3, 1] },
    latest: { applied: [2, 3], dropped: 1 },
    strict: { applied: [1, 2, 3] },
  },
  {
    when: 'a replay that nobody accepted',
    arrives: [1, 2, { again: 1 }],
    any: { applied: [1, 2], repeats: 1 },
    latest: { applied: [1, 2], repeats: 1 },
    strict: { applied: [1, 2], repeats: 1 },
  },
  {
    when: 'a new epoch',
    arrives: [1, EPOCH + 1n, 2, EPOCH + 2n],
    any: { applied: [1, EPOCH + 1n, 2, EPOCH + 2n] },
    latest: { applied: [1, EPOCH + 1n, EPOCH + 2n], dropped: 1 },
    strict: { applied: [1, EPOCH + 1n, EPOCH + 2n], held: ['2 late'] },
  },
  {
    when: 'a place without a message, of a type that is not routed here',
    arrives: [1, 3, 4],
    any: { applied: [1, 3, 4] },
    latest: { applied: [1, 3, 4] },
    strict: { applied: [1], held: ['3 gap', '4 gap'] },
  },
  {
    when: 'a skipped event',
    arrives: [1, { skipped: 2 }, 3],
    any: { applied: [1, 3], ignored: 1 },
    latest: { applied: [1, 3], ignored: 1 },
    strict: { applied: [1, 3], ignored: 1 },
  },
  {
    when: 'a skipped event whose place others wait for',
    arrives: [1, 3, { skipped: 2 }],
    any: { applied: [1, 3], ignored: 1 },
    latest: { applied: [1, 3], ignored: 1 },
    strict: { applied: [1, 3], ignored: 1 },
  },
  {
    when: 'a start in the middle of a stream',
    arrives: [5, 6],
    any: { applied: [5, 6] },
    latest: { applied: [5, 6] },
    strict: { applied: [], held: ['5 gap', '6 gap'] },
  },
  {
    when: 'a start in the middle, from what is seen first',
    startingPoint: 'first-seen',
    arrives: [5, 6],
    any: { applied: [5, 6] },
    latest: { applied: [5, 6] },
    strict: { applied: [5, 6] },
  },
];

const MODES: readonly Mode[] = ['any', 'latest', 'strict'];

describe.each(TABLE)('case 59, 60 and their like: $when', (row) => {
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
      const sequence = typeof arrival !== 'object' ? arrival : 'again' in arrival ? arrival.again : arrival.skipped;
      const skipped = typeof arrival === 'object' && 'skipped' in arrival;
      const id = ids.get(sequence) ?? randomUUID();
      ids.set(sequence, id);
      const body = counterEnvelope({ counter: 'a', sequence, id, type: skipped ? 'outbox.skipped' : 'counter.added' });
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
