import type { Benchmark } from '../harness/benchmark.ts';
import { coldImports } from './cold-import.ts';
import { synth } from './synth.ts';

/** In the order in which they run and print. */
export const awsBenchmarks: readonly Benchmark[] = [synth, coldImports];
