import type { Benchmark } from '../harness/benchmark.ts';
import { append } from './append.ts';

/** In the order in which they run and print. */
export const relayBenchmarks: readonly Benchmark[] = [append];
