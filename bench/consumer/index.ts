import type { Benchmark } from '../harness/benchmark.ts';
import { replay } from '../relay/replay.ts';
import { coldImport } from './cold-import.ts';
import { effects } from './effects.ts';
import { held } from './held.ts';

/** In the order in which they run. The replay is the relay's, and what it brings is a consumer's. */
export const consumerBenchmarks: readonly Benchmark[] = [effects, held, replay, coldImport];
