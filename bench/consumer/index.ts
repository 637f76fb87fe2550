import type { Benchmark } from '../harness/benchmark.ts';
import { effects } from './effects.ts';
import { held } from './held.ts';

/** In the order in which they run and print. */
export const consumerBenchmarks: readonly Benchmark[] = [effects, held];
