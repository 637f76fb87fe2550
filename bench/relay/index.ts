import type { Benchmark } from '../harness/benchmark.ts';
import { append } from './append.ts';
import { blocked } from './blocked.ts';
import { fetch } from './fetch.ts';
import { fifo } from './fifo.ts';
import { hotAggregate } from './hot-aggregate.ts';
import { latency } from './latency.ts';
import { memory } from './memory.ts';
import { peers } from './peers.ts';
import { pinned } from './pinned.ts';
import { replay } from './replay.ts';
import { twoRelays } from './two-relays.ts';
import { wal } from './wal.ts';

/** In the order in which they run and print. */
export const relayBenchmarks: readonly Benchmark[] = [
  fifo,
  peers,
  twoRelays,
  latency,
  append,
  wal,
  fetch,
  pinned,
  hotAggregate,
  blocked,
  replay,
  memory,
];
