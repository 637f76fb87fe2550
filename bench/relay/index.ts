import type { Benchmark } from '../harness/benchmark.ts';
import { append } from './append.ts';
import { fifo } from './fifo.ts';

/** In the order in which they run and print. */
export const relayBenchmarks: readonly Benchmark[] = [fifo, append];
