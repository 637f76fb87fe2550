import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { PublishError } from '../../../shared/outbox/publish/publish-error.ts';
import type { PublishResult } from '../../../shared/outbox/publish/publisher.ts';
import { aggregates, delivery, letters } from '../../support/delivery.ts';
import { acceptAll, accepted, laneBench, refused, refusing } from '../../support/lane.ts';
import { turn } from '../../support/moved-clock.ts';

describe('a lane that has nothing to do', () => {
  const turnsIn = async (bench: ReturnType<typeof laneBench>, ms: number): Promise<number> => {
    const done = bench.start();
    for (let passed = 0; passed < 500; passed += 5) await bench.clock.advance(5);
    const before = bench.turns();
    for (let passed = 0; passed < ms; passed += 5) await bench.clock.advance(5);
    const turns = bench.turns() - before;
    bench.stop();
    for (let passed = 0; passed < 1_000; passed += 5) await bench.clock.advance(5);
    await done;
    return turns;
  };

  it('looks four times a second, and does nothing between', async () => {
    expect(await turnsIn(laneBench(acceptAll, { drain: false }), 10_000)).toBeLessThan(120);
  });

  it('does not spin while its destination is away', async () => {
    const bench = laneBench((messages) => messages.map(() => refused('RequestThrottled')), { drain: false });
    bench.db.add(...aggregates(letters(500)));
    expect(await turnsIn(bench, 10_000)).toBeLessThan(200);
    expect(bench.calls.length).toBeLessThan(20);
    expect(bench.db.statements.length).toBeLessThan(20);
  });

  it('does not spin while its window is full and every call hangs', async () => {
    const hanging = Promise.withResolvers<readonly PublishResult[]>();
    const window = { rows: 50, bytes: 10_000_000, page: 20, rowsOfAggregate: 20 };
    const bench = laneBench(() => hanging.promise, { drain: false, window });
    bench.db.add(...aggregates(letters(500)));
    const count = bench.clock;
    const done = bench.start();
    for (let passed = 0; passed < 500; passed += 5) await count.advance(5);
    const before = bench.turns();
    for (let passed = 0; passed < 5_000; passed += 5) await count.advance(5);
    expect(bench.turns() - before).toBeLessThan(50);
    bench.stop();
    hanging.resolve(Array.from({ length: 10 }, () => accepted));
    for (let passed = 0; passed < 1_000; passed += 5) await count.advance(5);
    await done;
  });

  it('does not spin while everything waits for a retry', async () => {
    const bench = laneBench(
      refusing('SomethingNew', (id) => id.startsWith('bad')),
      {
        drain: false,
        policy: { attempts: 100, baseMs: 60_000, capMs: 60_000 },
      },
    );
    bench.db.add(...aggregates(['good', ...letters(100).map((name) => `bad${name}`)]));
    expect(await turnsIn(bench, 10_000)).toBeLessThan(120);
  });
});

describe('calls at once', () => {
  it('are as many as allowed, and never more', async () => {
    let inFlight = 0;
    let most = 0;
    const bench = laneBench(
      async (messages) => {
        inFlight += 1;
        most = Math.max(most, inFlight);
        await turn();
        inFlight -= 1;
        return acceptAll(messages, 1);
      },
      { concurrency: 3 },
    );
    bench.db.add(...aggregates(letters(100), 2));
    await bench.run();
    expect(most).toBe(3);
  });

  it('keep the order of each aggregate and lose nothing, whatever the queue answers and when', async () => {
    const answers = fc.constantFrom(
      'accept',
      'accept',
      'accept',
      'accept',
      'SomethingNew',
      'RequestThrottled',
      'InvalidMessageContents',
      'call',
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ aggregate: fc.constantFrom(...letters(8)), late: fc.boolean() }), { maxLength: 40 }),
        fc.array(fc.record({ answer: answers, delay: fc.nat(3) }), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: 1, max: 4 }),
        async (events, script, concurrency) => {
          const acknowledged: string[] = [];
          const breaks: string[] = [];
          let step = 0;
          let calm = false;
          const next = () => (calm ? { answer: 'accept', delay: 0 } : script[step++ % script.length]!);
          const window = { rows: 30, bytes: 10_000_000, page: 7, rowsOfAggregate: 3 };
          const bench = laneBench(
            async (messages) => {
              for (const { eventId } of messages) {
                const [aggregate, sequence] = eventId.split('#');
                for (let lower = 1; lower < Number(sequence); lower += 1) {
                  if (!acknowledged.includes(`${aggregate}#${lower}`)) breaks.push(`${eventId} before #${lower}`);
                }
              }
              const { delay, answer } = next();
              for (let turns = 0; turns < delay; turns += 1) await turn();
              if (answer === 'call') throw new PublishError('SomethingNew', 'scripted');
              return messages.map(({ eventId }) => {
                const { answer: own } = next();
                if (own !== 'accept' && own !== 'call') return refused(own);
                acknowledged.push(eventId);
                return accepted;
              });
            },
            { concurrency, window, drain: false, policy: { attempts: 50, baseMs: 10, capMs: 20 } },
          );
          const counts = new Map<string, number>();
          const writtenLater = new Set<string>();
          const rows = events.map((event) => {
            const { aggregate } = event;
            // The stream's lock: what comes after a late one is late as well.
            if (event.late) writtenLater.add(aggregate);
            counts.set(aggregate, (counts.get(aggregate) ?? 0) + 1);
            return {
              late: writtenLater.has(aggregate),
              row: delivery({ aggregate, sequence: counts.get(aggregate)! }),
            };
          });
          const late = rows.filter((one) => one.late);
          bench.db.add(...rows.filter((one) => !one.late).map((one) => one.row));
          let rounds = 0;
          await bench.run(() => {
            rounds += 1;
            if (rounds > 3 && late.length > 0) bench.db.add(late.shift()!.row);
            if (rounds > 100) calm = true;
            const states = Object.values(bench.db.states());
            const left = states.filter((state) => state === 'pending').length + late.length;
            return left === 0 || rounds > 3_000;
          });
          expect(breaks).toEqual([]);
          for (const { delivery: row, state } of bench.db.rows) {
            expect(state, row.eventId).toMatch(/published|parked|blocked/);
            if (state === 'published') expect(acknowledged).toContain(row.eventId);
          }
          for (const call of bench.calls) {
            expect(call.length).toBeLessThanOrEqual(10);
            expect(new Set(call.map((id) => id.split('#')[0])).size).toBe(call.length);
          }
        },
      ),
      { numRuns: 40 },
    );
  });
});
