import { parseArgs } from 'node:util';
import type { Benchmark } from './benchmark.ts';

export interface Options {
  readonly quick: boolean;
  readonly profile: boolean;
  readonly json: string | undefined;
  readonly report: string | undefined;
  readonly chosen: readonly Benchmark[];
}

/** The command line asks for something that there is not. */
export class UsageError extends Error {}

/**
 * What the command line asks for.
 *
 * @throws UsageError naming what is wrong.
 */
export function readOptions(args: readonly string[], benchmarks: readonly Benchmark[]): Options {
  const { quick, profile, only, json, report } = parse(args);
  const names = only?.split(',').map((name) => name.trim());
  const unknown = names?.filter((name) => !benchmarks.some((benchmark) => benchmark.name === name)) ?? [];
  if (unknown.length > 0) throw new UsageError(`--only: there is no benchmark called ${unknown.join(', ')}.`);
  const chosen = benchmarks.filter(({ name }) => names?.includes(name) ?? true);
  return { quick, profile, json, report, chosen };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        quick: { type: 'boolean', default: false },
        profile: { type: 'boolean', default: false },
        only: { type: 'string' },
        json: { type: 'string' },
        report: { type: 'string' },
      },
    }).values;
  } catch (error) {
    throw new UsageError((error as Error).message);
  }
}

/** Minutes on a quiet machine with two cores; with `quick` about a fifth: preparations and starts shrink less than the sizes. */
export function expectedMinutes({ minutes }: Pick<Benchmark, 'minutes'>, quick: boolean): number {
  return quick ? minutes / 5 : minutes;
}

/** What is about to run, and how long it takes. */
export function plan(benchmarks: readonly Benchmark[], quick: boolean): string {
  const rows = benchmarks.map((benchmark) => {
    const minutes = expectedMinutes(benchmark, quick).toFixed(1);
    return `  ${benchmark.name.padEnd(14)}${minutes.padStart(5)} min  ${benchmark.what}`;
  });
  const sum = benchmarks.reduce((minutes, benchmark) => minutes + expectedMinutes(benchmark, quick), 0);
  return [`${benchmarks.length} benchmarks, about ${Math.ceil(sum)} minutes on two quiet cores:`, ...rows].join('\n');
}
