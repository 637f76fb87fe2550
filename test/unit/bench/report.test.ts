import { describe, expect, test } from 'vitest';
import { type Figure, judge, median, quantile, table } from '../../../bench/harness/figure.ts';
import { jsonOf, markdownOf, type Outcome, type Setting } from '../../../bench/harness/report.ts';

const FIGURES: readonly Figure[] = [
  { name: 'small: p99', value: 4.5678, unit: 'ms', goal: { atMost: 5 } },
  { name: '  p50', value: 1, unit: 'ms' },
  { name: 'large: p99', value: 1234.5, unit: 'ms', goal: { atMost: 1000 } },
  { name: '  p50', value: 2, unit: 'ms' },
  { name: '  share', value: 0.5, unit: '× a | b', goal: { atLeast: 0.5 } },
];
const OUTCOME: Outcome = { benchmark: 'fetch', figures: FIGURES.map(judge), seconds: 90 };
const SETTING: Setting = {
  date: new Date('2026-11-30T13:05:59Z'),
  commit: 'abc1234',
  node: '24.22.3',
  postgres: '17.10',
  cores: 2,
  quick: false,
};

describe('a figure', () => {
  test('reaches its goal at the goal itself, and not beyond', () => {
    expect(judge({ name: 'a', value: 5, unit: '', goal: { atMost: 5 } })).toMatchObject({ goal: '≤ 5', ok: true });
    expect(judge({ name: 'a', value: 5.001, unit: '', goal: { atMost: 5 } }).ok).toBe(false);
    expect(judge({ name: 'a', value: 80, unit: '', goal: { atLeast: 80 } })).toMatchObject({ goal: '≥ 80', ok: true });
    expect(judge({ name: 'a', value: 79.99, unit: '', goal: { atLeast: 80 } }).ok).toBe(false);
  });

  test('without a goal is neither reached nor missed', () => {
    expect(judge({ name: 'a', value: 5, unit: '' })).toMatchObject({ goal: null, ok: null });
  });

  test('that could not be computed misses every goal', () => {
    for (const value of [Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(judge({ name: 'a', value, unit: '', goal: { atLeast: 1 } }).ok).toBe(false);
      expect(judge({ name: 'a', value, unit: '', goal: { atMost: 1 } }).ok).toBe(false);
    }
  });

  test('has three significant digits, and whole numbers above a hundred', () => {
    expect(
      [0.012345, 4.5678, 99.96, 123.456, 1234.5].map((value) => judge({ name: '', value, unit: '' }).value),
    ).toEqual([0.0123, 4.57, 100, 123, 1235]);
  });

  test('quantiles are values that were measured', () => {
    const values = [5, 1, 4, 2, 3];
    expect([quantile(values, 0), median(values), quantile(values, 0.99)]).toEqual([1, 3, 5]);
    expect(quantile([], 0.5)).toBeNaN();
  });

  test('stands in a line of the table, under its heading', () => {
    expect(table(OUTCOME.figures).split('\n').slice(0, 2)).toEqual([
      'what        value  unit     goal',
      'small: p99   4.57  ms       ≤ 5      ok',
    ]);
  });
});

describe('the figures as JSON', () => {
  const entries = JSON.parse(jsonOf([OUTCOME, { ...OUTCOME, benchmark: 'other' }])) as Record<string, unknown>[];

  test('have name, value, unit, goal and ok, and nothing else', () => {
    for (const entry of entries) {
      expect(Object.keys(entry)).toEqual(['name', 'value', 'unit', 'goal', 'ok']);
      expect(entry).toEqual({
        name: expect.any(String),
        value: expect.any(Number),
        unit: expect.any(String),
        goal: entry['goal'] === null ? null : expect.stringMatching(/^[≤≥] [\d.,]+$/),
        ok: entry['goal'] === null ? null : expect.any(Boolean),
      });
    }
  });

  test('have names of their own, though rows of a table repeat theirs', () => {
    expect(entries.slice(0, 5).map(({ name }) => name)).toEqual([
      'fetch: small: p99',
      'fetch: small: p99, p50',
      'fetch: large: p99',
      'fetch: large: p99, p50',
      'fetch: share',
    ]);
    expect(new Set(entries.map(({ name }) => name)).size).toBe(entries.length);
  });

  test('are refused where two would have one name', () => {
    const figures = ['large', '  p50', '  p50'].map((name) => judge({ name, value: 1, unit: 'ms' }));
    expect(() => jsonOf([{ ...OUTCOME, figures }])).toThrow('Two figures are named "fetch: large, p50"');
  });

  test('have null for what could not be computed, and nothing of a benchmark that failed', () => {
    const figures = [judge({ name: 'a', value: Number.NaN, unit: '', goal: { atLeast: 1 } })];
    const failed: Outcome = { benchmark: 'b', figures: [], seconds: 1, failure: 'no queue' };
    expect(JSON.parse(jsonOf([{ benchmark: 'a', figures, seconds: 1 }, failed]))).toEqual([
      { name: 'a: a', value: null, unit: '', goal: '≥ 1', ok: false },
    ]);
  });
});

describe('the report', () => {
  test('says when, on what and how many goals were reached', () => {
    const text = markdownOf(SETTING, [OUTCOME], ['fetch']);
    expect(text).toContain('| 2026-11-30 13:05 UTC | abc1234 | 24.22.3 | 17.10 | 2 | 2 min |');
    expect(text).toContain('**2 of 3 goals reached.**');
    expect(text).not.toContain('Not measured');
  });

  test('has a table for each benchmark, in which a bar does not end a cell', () => {
    const text = markdownOf(SETTING, [OUTCOME], ['fetch']);
    expect(text).toContain(
      '## fetch\n\n| what | value | unit | goal | |\n|---|--:|---|---|---|\n| small: p99 | 4.57 | ms | ≤ 5 | ok |\n',
    );
    expect(text).toContain('| large: p99 | 1,235 | ms | ≤ 1,000 | **missed** |');
    expect(text).toContain('| – p50 | 2 | ms |  |  |');
    expect(text).toContain('| – share | 0.5 | × a \\| b | ≥ 0.5 | ok |');
  });

  test('names what failed with its reason, and what an interrupted run did not reach', () => {
    const failed: Outcome = { benchmark: 'peers', figures: [], seconds: 1, failure: 'no\nregistry' };
    const text = markdownOf({ ...SETTING, quick: true }, [OUTCOME, failed], ['fetch', 'peers', 'memory']);
    expect(text).toContain('## peers\n\nCould not be measured: no registry');
    expect(text).toContain('Not measured: memory.');
    expect(text).toContain('A quick run');
  });
});
