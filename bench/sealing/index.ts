import type { Benchmark } from '../harness/benchmark.ts';
import { rewrap } from './rewrap.ts';

/** In the order in which they run and print. */
export const sealingBenchmarks: readonly Benchmark[] = [rewrap];
