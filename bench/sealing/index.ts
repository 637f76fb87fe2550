import type { Benchmark } from '../harness/benchmark.ts';
import { append } from './append.ts';
import { hostile } from './hostile.ts';
import { kmsCalls } from './kms-calls.ts';
import { persons } from './persons.ts';
import { rewrap } from './rewrap.ts';
import { value } from './value.ts';

/** In the order in which they run and print. */
export const sealingBenchmarks: readonly Benchmark[] = [value, append, persons, kmsCalls, hostile, rewrap];
