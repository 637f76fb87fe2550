import { describe, expect, test } from 'vitest';
import type { Benchmark } from '../../../bench/harness/benchmark.ts';
import { plan, readOptions, UsageError } from '../../../bench/harness/options.ts';

const benchmark = (name: string, minutes: number): Benchmark => ({
  name,
  what: `what ${name} does`,
  minutes,
  run: async () => [],
});
const BENCHMARKS = [benchmark('first', 10), benchmark('second', 2.5), benchmark('third', 1)];
const names = (args: string[]): string[] => readOptions(args, BENCHMARKS).chosen.map(({ name }) => name);

describe('what to run', () => {
  test('is everything, in full size, where nothing is said', () => {
    expect(names([])).toEqual(['first', 'second', 'third']);
    expect(readOptions([], BENCHMARKS)).toMatchObject({ quick: false, profile: false });
  });

  test('keeps the order of the list, whatever the order of --only', () => {
    expect(names(['--only', 'third, first'])).toEqual(['first', 'third']);
  });

  test('a name that there is not, and an option that there is not, are said before anything runs', () => {
    expect(() => names(['--only', 'first,fourth'])).toThrow(
      new UsageError('--only: there is no benchmark called fourth.'),
    );
    expect(() => names(['--fast'])).toThrow(UsageError);
    expect(() => names(['--json'])).toThrow(UsageError);
  });
});

describe('the plan', () => {
  test('names every row with its minutes, and the sum', () => {
    expect(plan(BENCHMARKS, false).split('\n')).toEqual([
      '3 benchmarks, about 14 minutes on two quiet cores:',
      '  first          10.0 min  what first does',
      '  second          2.5 min  what second does',
      '  third           1.0 min  what third does',
    ]);
  });

  test('is shorter for a quick run', () => {
    expect(plan(BENCHMARKS, true)).toMatch(/^3 benchmarks, about 3 minutes/);
  });
});
