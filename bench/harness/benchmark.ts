import type { Figure } from './figure.ts';
import type { BenchServer } from './server.ts';

/** What every benchmark gets. */
export interface Bench {
  readonly server: BenchServer;
  /** `--quick`: a tenth of the sizes. Shows that everything runs; its numbers are not for the table. */
  readonly quick: boolean;
  /** `--profile`: directory for CPU profiles of the relay's process, or undefined. */
  readonly profileDirectory: string | undefined;
  /** Prints a line between the tables: what is being prepared, what an odd number comes from. */
  readonly note: (text: string) => void;
}

export interface Benchmark {
  readonly name: string;
  /** One line for the list. */
  readonly what: string;
  /** How long it takes at full size on a quiet machine with two cores. */
  readonly minutes: number;
  run(bench: Bench): Promise<readonly Figure[]>;
}

/** `full`, or a tenth of it with `--quick`. */
export function sized(bench: Pick<Bench, 'quick'>, full: number): number {
  return bench.quick ? Math.ceil(full / 10) : full;
}
