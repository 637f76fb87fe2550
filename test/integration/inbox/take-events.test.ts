import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import type { Mode, ReceivedEvent, StartingPoint } from '../../../shared/events/index.ts';
import { decide } from '../../../shared/inbox/order.ts';
import { takeEvents, type Taken } from '../../../shared/inbox/take.ts';
import type { ConsumerRules } from '../../../shared/inbox/work.ts';
import { testDatabase } from '../../support/database.ts';

const database = await testDatabase();
const EPOCH = 2n ** 40n;
const owner = database.pool('sealed_migrator');

function event(subject: string, sequence: bigint, more: Partial<ReceivedEvent> = {}): ReceivedEvent {
  const time = new Date().toISOString();
  const place = { type: 'counter.added', aggregateType: 'counter', aggregateId: subject, sequence };
  return { id: randomUUID(), time, ...place, ...more } as ReceivedEvent;
}

const rulesOf = (name: string, mode: Mode, startingPoint: StartingPoint): ConsumerRules =>
  ({ consumer: { name, mode, startingPoint, windowDays: 35 } }) as ConsumerRules;

/** Takes and commits; tells also which functions were asked. */
async function take(
  client: pg.PoolClient,
  rules: ConsumerRules,
  events: readonly ReceivedEvent[],
): Promise<{ taken: readonly Taken[]; asked: string[] }> {
  const asked: string[] = [];
  const watched = new Proxy(client, {
    get(target, key) {
      if (key !== 'query') return Reflect.get(target, key);
      return (text: string) => {
        asked.push(/inbox\.(take_\w+)/.exec(text)?.[1] ?? '');
        return target.query(text);
      };
    },
  });
  const taken = await takeEvents(watched, rules, events);
  await client.query('select inbox.finish(); commit');
  return { taken, asked };
}

describe('takeEvents', () => {
  it('does in the database what decide says, and asks once where all are next', async () => {
    const client = await database.pool('sealed_ledger').connect();
    const sequence = fc
      .tuple(fc.bigInt({ min: 0n, max: 1n }), fc.bigInt({ min: 1n, max: 3n }))
      .map(([epoch, place]) => epoch * EPOCH + place);
    let run = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.record({ a: fc.option(sequence, { nil: null }), b: fc.option(sequence, { nil: null }) }),
        fc.array(fc.tuple(fc.constantFrom('a' as const, 'b' as const), sequence), { minLength: 1, maxLength: 4 }),
        fc.constantFrom('any' as const, 'latest' as const, 'strict' as const),
        fc.constantFrom('beginning' as const, 'first-seen' as const),
        async (positions, places, mode, start) => {
          run += 1;
          const startingPoint = mode === 'strict' ? start : 'first-seen';
          for (const [key, position] of Object.entries(positions)) {
            if (position === null) continue;
            await client.query(`insert into inbox.stream_position values ('model', 'counter', $1, $2)`, [
              `${key} ${run}`,
              position.toString(),
            ]);
          }
          const events = places.map(([key, next]) => event(`${key} ${run}`, next));
          const { taken, asked } = await take(client, rulesOf('model', mode, startingPoint), events);
          const last: Record<'a' | 'b', bigint | null> = { ...positions };
          const decisions = places.map(([key, next]) => {
            const decision = decide(last[key], next, mode, startingPoint);
            if (decision.kind === 'apply') last[key] = next;
            return decision;
          });
          expect(taken.map(({ outcome }) => outcome)).toEqual(decisions.map(({ kind }) => kind));
          for (const [index, decision] of decisions.entries()) {
            if ('expected' in decision) expect(BigInt(taken[index]?.expected ?? 0)).toBe(decision.expected);
            expect(taken[index]?.age).toBeLessThan(60);
          }
          const { rows } = await client.query(
            `select aggregate_id, sequence from inbox.stream_position where consumer = 'model' and aggregate_id = any ($1)`,
            [[`a ${run}`, `b ${run}`]],
          );
          for (const key of ['a', 'b'] as const) {
            const stored = rows.find(({ aggregate_id }) => aggregate_id === `${key} ${run}`)?.sequence ?? 0;
            expect(BigInt(stored)).toBe((mode === 'any' ? positions[key] : last[key]) ?? 0n);
          }
          if (decisions.every(({ kind }) => kind === 'apply')) expect(asked).toEqual(['take_next']);
        },
      ),
      { numRuns: 100 },
    );
    client.release();
  });

  const NAME = 'beside';
  const holdings = (queued: boolean, id: string) =>
    owner.query(
      `insert into inbox.held_event (consumer, event_id, aggregate_type, aggregate_id, sequence, reason, body, queued, blocks)
       values ($1, $2, 'counter', 'n', 9, 'failing', '', $3, false)`,
      [NAME, id, queued],
    );

  it.each<{ what: string; prepare: (next: ReceivedEvent) => Promise<unknown>; outcome: string; more?: object }>([
    { what: 'was processed', prepare: ({ id }) => processed(id), outcome: 'repeat' },
    { what: 'is held', prepare: ({ id }) => holdings(false, id), outcome: 'held' },
    { what: 'has failed before', prepare: ({ id }) => holdings(true, id), outcome: 'apply' },
    { what: 'has others of its aggregate held', prepare: () => holdings(false, randomUUID()), outcome: 'apply' },
    { what: 'is too old', prepare: async () => {}, outcome: 'too-old', more: { time: '2020-01-01T00:00:00Z' } },
    { what: 'is replayed', prepare: async () => {}, outcome: 'not-accepted', more: { replay: 3 } },
    { what: 'is of an aggregate that is being replayed', prepare: () => reset(), outcome: 'replay' },
  ])('decides for itself about one that $what, and lets its neighbours be applied', async (row) => {
    await owner.query('truncate inbox.held_event, inbox.stream_position, inbox.processed_event, inbox.reset');
    const next = event('n', 1n, row.more);
    await row.prepare(next);
    const client = await database.pool('sealed_ledger').connect();
    try {
      const neighbour = event('m', 1n);
      const { taken, asked } = await take(client, rulesOf(NAME, 'strict', 'beginning'), [next, neighbour]);
      expect(taken.map(({ outcome }) => outcome)).toEqual([row.outcome, 'apply']);
      expect(taken[0]?.waiting).toBe(row.what.startsWith('has others') || row.what === 'is held');
      expect(asked.at(-1)).toBe('take_any');
      const { rows } = await client.query(
        `select (select array_agg(aggregate_id || '#' || sequence order by 1) from inbox.stream_position where sequence > 0) as positions,
                (select count(*)::integer from inbox.held_event where queued) as counted`,
      );
      expect(rows).toEqual([{ positions: row.outcome === 'apply' ? ['m#1', 'n#1'] : ['m#1'], counted: 0 }]);
    } finally {
      client.release();
    }
  });

  const processed = (id: string) =>
    owner.query('insert into inbox.processed_event (consumer, event_id, event_time) values ($1, $2, now())', [
      NAME,
      id,
    ]);

  const reset = () =>
    owner.query(
      `with one as (insert into inbox.consumer (name, mode, starting_point) values ($1, 'strict', 'beginning') on conflict do nothing)
       insert into inbox.reset (consumer, generation, replay, aggregate_type, aggregate_id, reset_at) values ($1, 2, 3, 'counter', 'n', now())`,
      [NAME],
    );
});
