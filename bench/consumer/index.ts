import type { Benchmark } from '../harness/benchmark.ts';
import { coldImport } from './cold-import.ts';

/** In the order in which they run. */
export const consumerBenchmarks: readonly Benchmark[] = [coldImport];
