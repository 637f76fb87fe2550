import { describe, expect, it } from 'vitest';
import { aggregates, delivery, letters } from '../../support/delivery.ts';
import { acceptAll, type Answer, laneBench, refusing, runWithLateScan } from '../../support/lane.ts';
import { turn } from '../../support/moved-clock.ts';

describe('scanning', () => {
  it('case 61: a scan that began before a retry was settled does not send the head again, nor its follower alone', async () => {
    const bench = laneBench(
      refusing('SomethingNew', (id) => id === 'x#1'),
      { drain: false },
    );
    bench.db.add(...aggregates(['x'], 2), ...aggregates(letters(5)));
    await runWithLateScan(bench, () => bench.db.rows[0]!.attempts === 1, 4);
    expect(bench.db.rows[0]).toMatchObject({ attempts: 1, state: 'pending' });
    expect(bench.calls.flat().filter((id) => id.startsWith('x'))).toEqual(['x#1']);
  });

  it('goes on while calls are under way, and sends nothing twice', async () => {
    const bench = laneBench(async (messages, call) => {
      for (let i = 0; i < 5; i += 1) await turn();
      return acceptAll(messages, call);
    });
    bench.db.add(...aggregates(letters(300), 3));
    await bench.run();
    expect(bench.calls.flat()).toHaveLength(900);
    expect(new Set(bench.calls.flat()).size).toBe(900);
  });

  it('holds no more rows in memory than the window has, and all go in the end', async () => {
    let most = 0;
    let loaded = 0;
    const window = { rows: 60, bytes: 10_000_000, page: 20, rowsOfAggregate: 20 };
    const bench = laneBench(
      async (messages, call) => {
        most = Math.max(most, loaded - bench.calls.flat().length + messages.length);
        await turn();
        return acceptAll(messages, call);
      },
      { window },
    );
    const query = bench.db.query.bind(bench.db);
    bench.db.query = async (text, values) => {
      if (text.includes('outbox.load(')) loaded += ((values ?? [])[0] as string[]).length;
      return query(text, values);
    };
    bench.db.add(...aggregates(letters(20), 50));
    await bench.run();
    expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
    expect(most).toBeLessThanOrEqual(60);
  });

  it('that asks for as many by name as it may walks on by a step; each fourth by a page, so that a new aggregate is met', async () => {
    const window = { rows: 1_100, bytes: 100_000_000, page: 1_100, rowsOfAggregate: 1 };
    const bench = laneBench(acceptAll, { window, concurrency: 32 });
    // Longer than a slice: of each, the database always has more.
    bench.db.add(...aggregates(letters(1_100), 4));
    await bench.run();
    expect(Object.values(bench.db.states())).toEqual(Array.from({ length: 4_400 }, () => 'published'));
    const full = bench.db.finds.filter(({ wake }) => wake === 500).map(({ page }) => page);
    expect(new Set(full)).toEqual(new Set([1, 1_100]));
    expect(full.filter((page) => page === 1).length).toBeGreaterThan(full.length / 2);
  });

  it('looks up little more than it has room for', async () => {
    const window = { rows: 400, bytes: 10_000_000, page: 20, rowsOfAggregate: 11 };
    const slowly: Answer = async (messages, call) => {
      await turn();
      return acceptAll(messages, call);
    };
    const bench = laneBench(slowly, { window, concurrency: 1 });
    let found = 0;
    const query = bench.db.query.bind(bench.db);
    bench.db.query = async (text, values) => {
      const result = await query(text, values);
      if (text.includes('outbox.find(')) found += result.rows.length;
      return result;
    };
    // Each page meets twenty other aggregates.
    bench.db.add(...aggregates(letters(300), 10).toSorted((a, b) => Number(a.sequence - b.sequence)));
    await bench.run();
    expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
    // With a look whenever there is room for a page, fifty rows were found for each that was sent.
    expect(found / 3_000).toBeLessThan(5);
  });

  it('has no more than a quarter of its window in flight, but for one call', async () => {
    const mostAtOnce = async (bytes: number): Promise<number> => {
      let flying = 0;
      let most = 0;
      const bench = laneBench(
        async (messages, call) => {
          flying += 1;
          most = Math.max(most, flying);
          await turn();
          flying -= 1;
          return acceptAll(messages, call);
        },
        { concurrency: 4, window: { rows: 2_000, bytes, page: 100, rowsOfAggregate: 20 } },
      );
      bench.db.add(...letters(100).map((aggregate) => delivery({ aggregate, sequence: 1, bytes: 100 })));
      await bench.run();
      expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
      return most;
    };
    expect(await mostAtOnce(10_000_000)).toBe(4);
    expect(await mostAtOnce(4_000)).toBe(1);
  });

  it('holds no more bytes than the window has, but for one message', async () => {
    let held = 0;
    let most = 0;
    const size = 1_000;
    const window = { rows: 2_000, bytes: 10 * size, page: 100, rowsOfAggregate: 20 };
    const bench = laneBench(
      async (messages, call) => {
        most = Math.max(most, held);
        await turn();
        held -= messages.length * size;
        return acceptAll(messages, call);
      },
      { window },
    );
    const query = bench.db.query.bind(bench.db);
    bench.db.query = async (text, values) => {
      if (text.includes('outbox.load(')) held += ((values ?? [])[0] as string[]).length * size;
      return query(text, values);
    };
    bench.db.add(...letters(100).map((aggregate) => delivery({ aggregate, sequence: 1, bytes: size })));
    await bench.run();
    expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
    expect(most).toBeLessThanOrEqual(11 * size);
  });

  it('gathers what was answered for 50 ms while it polls: each look would wait for the flush of a settlement', async () => {
    const bench = laneBench(acceptAll, { drain: false });
    const settlements = (): number => bench.db.statements.filter((kind) => kind === 'settle').length;
    const end = bench.clock.monotonic() + 500;
    await bench.run(() => {
      const now = bench.clock.monotonic();
      if (now < end - 100) bench.db.add(delivery({ aggregate: `at ${now}`, sequence: 1 }));
      return now >= end;
    });
    expect(bench.calls.length).toBeGreaterThan(20);
    expect(settlements()).toBeLessThanOrEqual(10);
    expect(new Set(Object.values(bench.db.states()))).toEqual(new Set(['published']));
  });

  it('a hot aggregate does not keep the others back', async () => {
    const bench = laneBench(acceptAll, { concurrency: 1 });
    bench.db.add(...aggregates(['hot'], 200), ...aggregates(letters(50)));
    await bench.run();
    const last = bench.calls.findLastIndex((call) => call.some((id) => id.startsWith('a')));
    expect(last).toBeLessThan(30);
  });
});
