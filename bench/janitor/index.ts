import type { Benchmark } from '../harness/benchmark.ts';
import { archive, prune } from './prune.ts';

/** In the order in which they run and print. */
export const janitorBenchmarks: readonly Benchmark[] = [prune, archive];
