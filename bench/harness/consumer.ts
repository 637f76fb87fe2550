import type { Bench } from './benchmark.ts';
import { type Child, startChild } from './process.ts';
import type { BenchDatabase, Connection } from './server.ts';

/**
 * Of the sample's ledger, whose handlers take many events at once:
 * - `together`: as it is
 * - `alone`: with one transaction per message
 * - `bare`, `bareAlone`: its handlers in as many transactions as these, without dedupe and order
 * - `floor`: as `bare`, and in the same transactions a dedupe row and a position for each, plainly written
 *
 * Of handlers that take one event, each with the same statements:
 * - `each`, `eachBare`, `eachFloor`: as `together`, `bare` and `floor`
 *
 * With one connection instead of four:
 * - `oneTogether`, `oneAlone`: as `together` and `alone`
 */
export const VARIANTS = [
  'together',
  'bare',
  'floor',
  'alone',
  'bareAlone',
  'each',
  'eachBare',
  'eachFloor',
  'oneTogether',
  'oneAlone',
] as const;

export type Variant = (typeof VARIANTS)[number];

export interface ConsumerStart {
  readonly connection: Connection;
}

export interface BatchesInput {
  readonly variant: Variant;
  readonly invoices: number;
  /** Events of each invoice. */
  readonly events: number;
}

export interface SteadyInput {
  /** Batches a second, whether or not the one before is done. */
  readonly rate: number;
  readonly invoices: number;
}

export interface BatchesResult {
  readonly events: number;
  readonly seconds: number;
  /** Of this process, and of the server's that it is connected to. */
  readonly cpuSeconds: number;
  readonly serverCpuSeconds: number;
  readonly statements: number;
  readonly transactions: number;
  /** Of each batch. */
  readonly batchMs: readonly number[];
}

export interface DrainResult {
  /** Of the batches that closed the gaps. */
  readonly batchMs: readonly number[];
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly serverCpuSeconds: number;
  readonly statements: number;
}

interface BenchConsumer {
  batches(input: BatchesInput): Promise<BatchesResult>;
  /** Puts events of new invoices into `inbox.held_event`, all but the first of each. */
  hold(input: Omit<BatchesInput, 'variant'>): Promise<void>;
  /** Closes these gaps, and drains until nothing is held. */
  drain(): Promise<DrainResult>;
  /** Batches at a fixed rate until `endSteady`, which answers with the time that each took. Milliseconds. */
  startSteady(input: SteadyInput): Promise<void>;
  endSteady(): Promise<number[]>;
  stop(): Promise<void>;
}

/** A consumer in a process of its own: one sandbox, which has four connections, as the sample's ledger. */
export async function startConsumer({ profileDirectory }: Bench, database: BenchDatabase): Promise<BenchConsumer> {
  const profile = profileDirectory === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profileDirectory}`];
  const child: Child = startChild('consumer-process.ts', profile);
  await child.ask('start', { connection: database.connection('sealed_ledger') } satisfies ConsumerStart);
  return {
    batches: (input) => child.ask('batches', input),
    hold: (input) => child.ask('hold', input),
    drain: () => child.ask('drain'),
    startSteady: (input) => child.ask('startSteady', input),
    endSteady: () => child.ask('endSteady'),
    stop: () => child.stop(),
  };
}
