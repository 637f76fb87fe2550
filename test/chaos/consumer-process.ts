/** Consumers of a chaos run, in a process of its own so that it can be killed and frozen. Its options are its one argument, as JSON. */
import { writeSync } from 'node:fs';
import { type ConsumerKind, type ConsumerReport, runConsumers } from './consumers.ts';
import { sturdyPool } from './prepared-pool.ts';
import { seeded } from './random.ts';
import type { RelayProcessOptions } from './relay-process.ts';

export interface ConsumerProcessOptions {
  readonly kind: ConsumerKind;
  readonly index: number;
  readonly database: RelayProcessOptions['database'];
  /** Port of the queue itself: consumers do not go through the fault proxy. */
  readonly queuePort: number;
  /** Destination → queue. */
  readonly urls: Readonly<Record<string, string>>;
  readonly providerUrl: string;
  readonly redelivered: number;
  readonly seed: number;
}

const { index, database, seed, ...options } = JSON.parse(process.argv[2] ?? '') as ConsumerProcessOptions;
const stop = new AbortController();
process.on('SIGTERM', () => stop.abort());
// The terminal's Ctrl-C reaches this process as well; its parent decides what ends when.
process.on('SIGINT', () => {});
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));

await runConsumers({
  ...options,
  pool: sturdyPool({ ...database, max: 12 }),
  aside: sturdyPool({ ...database, max: 2 }),
  random: (name) => seeded(seed, `consumer ${index} ${name}`),
  signal: stop.signal,
  report: (report: ConsumerReport) => void writeSync(1, `${JSON.stringify(report)}\n`),
});
process.exit(0);
