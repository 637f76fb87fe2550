import { describe, expect, it } from 'vitest';
import { type PrunedPage, runJanitor, type Walk, walkOfFunction } from '../../../shared/retention/index.ts';
import { silentLog } from '../../../shared/telemetry/index.ts';

const PAGE_MS = 100;

interface Table extends Walk {
  left: number;
  mark: number;
}

/** A table with so many pages of old rows; each takes 100 ms. */
function table(name: string, pages: number, advance: (ms: number) => void, more: Partial<Walk> = {}): Table {
  const it: Table = {
    area: 'outbox',
    name,
    left: pages,
    mark: 0,
    begin: async () => String(it.mark),
    async page(mark): Promise<PrunedPage> {
      expect(mark).toBe(String(it.mark));
      advance(PAGE_MS);
      it.left -= 1;
      it.mark += 1;
      return { mark: String(it.mark), more: it.left > 0, behindSeconds: it.left, removed: { row: 10 } };
    },
    ...more,
  };
  return it;
}

function setting() {
  let ms = 0;
  const slept: number[] = [];
  const values: [string, number, string | undefined][] = [];
  return {
    slept,
    values,
    advance: (by: number): void => void (ms += by),
    elapsed: () => ms,
    options: {
      clock: {
        monotonic: () => ms,
        sleep: async (by: number): Promise<void> => {
          slept.push(by);
          ms += by;
        },
      },
      log: silentLog,
      metrics: {
        add: (name: string, _unit: string, value: number, dimensions?: Readonly<Record<string, string>>) =>
          void values.push([name, value, dimensions?.['Area']]),
      },
    },
  };
}

describe('a run', () => {
  it('walks to the end of each table and counts what it deleted', async () => {
    const { advance, options, values } = setting();
    const walks = [table('a', 3, advance), table('b', 1, advance, { area: 'inbox' })];
    const report = await runJanitor({ ...options, walks, budgetMs: 10_000 });
    expect(report.walks.map(({ walk, pages, removed, ended }) => [walk, pages, removed, ended])).toEqual([
      ['a', 3, { row: 30 }, 'end'],
      ['b', 1, { row: 10 }, 'end'],
    ]);
    expect(values).toEqual([
      ['Pruned', 30, 'outbox'],
      ['PruneLag', 0, 'outbox'],
      ['Pruned', 10, 'inbox'],
      ['PruneLag', 0, 'inbox'],
    ]);
  });

  it('keeps to its time, by a page, and the next one goes on there', async () => {
    const { advance, options, values, elapsed } = setting();
    const walk = table('a', 100, advance);
    const run = () => runJanitor({ ...options, walks: [walk], budgetMs: 1_000, rest: 0 });
    expect((await run()).walks).toMatchObject([{ pages: 10, ended: 'time', behindSeconds: 90 }]);
    expect(elapsed()).toBe(1_000);
    expect(values).toContainEqual(['PruneLag', 90, 'outbox']);
    expect((await run()).walks).toMatchObject([{ pages: 10, behindSeconds: 80 }]);
  });

  it('shares its time, so that a table that is far behind starves none', async () => {
    const { advance, options } = setting();
    const walks = [table('huge', 1_000, advance), table('small', 2, advance), table('large', 1_000, advance)];
    const { walks: reports } = await runJanitor({ ...options, walks, budgetMs: 3_000, rest: 0 });
    expect(reports.map(({ walk, pages, ended }) => [walk, pages, ended])).toEqual([
      ['huge', 10, 'time'],
      ['small', 2, 'end'],
      ['large', 18, 'time'],
    ]);
  });

  it('gives a table whose share is used up one page all the same', async () => {
    const { advance, options } = setting();
    const walks = [table('slow', 5, advance), table('starved', 5, advance)];
    const { walks: reports } = await runJanitor({ ...options, walks, budgetMs: 50, rest: 0 });
    expect(reports.map(({ pages }) => pages)).toEqual([1, 1]);
  });

  it('rests as long as it works, so that it is half of a load at most', async () => {
    const { advance, options, slept } = setting();
    await runJanitor({ ...options, walks: [table('a', 4, advance)], budgetMs: 10_000 });
    expect(slept).toEqual([PAGE_MS, PAGE_MS, PAGE_MS]);
  });

  it('ends after the page that is under way when it is told to', async () => {
    const { advance, options } = setting();
    const stop = new AbortController();
    const walk = table('a', 10, (ms) => {
      advance(ms);
      stop.abort();
    });
    const { walks } = await runJanitor({ ...options, walks: [walk], budgetMs: 10_000, signal: stop.signal });
    expect(walks).toMatchObject([{ pages: 1, ended: 'time' }]);
  });

  it('goes on after a walk that fails, and has no lag for its area, which the alarm takes for a breach', async () => {
    const { advance, options, values } = setting();
    const broken = table('broken', 3, advance, { page: () => Promise.reject(new Error('connection lost')) });
    const dependent = table('dependent', 3, advance, { afterPrevious: true });
    const other = table('other', 1, advance, { area: 'inbox' });
    const report = await runJanitor({ ...options, walks: [broken, dependent, other], budgetMs: 10_000 });
    expect(report.failed).toBe(true);
    expect(report.walks.map(({ ended }) => ended)).toEqual(['failed', 'not-yet', 'end']);
    expect(values).toEqual([
      ['Pruned', 0, 'outbox'],
      ['Pruned', 10, 'inbox'],
      ['PruneLag', 0, 'inbox'],
    ]);
  });

  it('leaves out what is worth nothing before another walk has come to its end', async () => {
    const { advance, options } = setting();
    const walks = [table('first', 100, advance), table('second', 1, advance, { afterPrevious: true })];
    const run = async (budgetMs: number) =>
      (await runJanitor({ ...options, walks, budgetMs, rest: 0 })).walks.map(({ ended }) => ended);
    expect(await run(1_000)).toEqual(['time', 'not-yet']);
    expect(await run(100_000)).toEqual(['end', 'end']);
  });
});

it('a function of another area is called by a name that is one, and by nothing else', () => {
  const db = { query: async () => ({ rows: [], rowCount: 0 }) };
  for (const name of ['prune', 'a.b; drop table x', 'A.b', 'a.b(c']) {
    expect(() => walkOfFunction(db, { name, keepSeconds: 1 })).toThrow(RangeError);
  }
  expect(walkOfFunction(db, { name: 'sample.prune_it', keepSeconds: 1 }).area).toBe('sample');
});
