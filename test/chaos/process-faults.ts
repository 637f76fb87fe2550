import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { between, deck, type Random } from './random.ts';
import type { ConsumerProcesses } from './consumer-processes.ts';
import { VISIBILITY_SECONDS } from './queue-calls.ts';
import type { Relays } from './relays.ts';

/** What is done to processes, connections and the database. */
export const PROCESS_FAULTS = [
  'SIGKILL at random',
  'SIGSTOP longer than the lease',
  'SIGTERM',
  'connections cut',
  'PostgreSQL restarted in immediate mode',
  'snapshot held open',
  'long writing transaction',
  'consumer killed',
  'consumer stopped longer than its messages are its own',
] as const;

export type ProcessFault = (typeof PROCESS_FAULTS)[number];

export interface ProcessFaultsOptions {
  readonly random: Random;
  readonly relays: Relays;
  readonly consumers: ConsumerProcesses;
  readonly relayCount: number;
  readonly leaseSeconds: number;
  /** Average time between two faults, milliseconds. */
  readonly everyMs: number;
  /** A connection as the server's superuser. */
  readonly superuser: () => Promise<pg.Client>;
  crashPostgres(): Promise<void>;
  /** One transaction of a writer that stays open for seconds. */
  longTransaction(): Promise<void>;
  injected(kind: ProcessFault): void;
  /** Messages taken by queues and acknowledged by consumers until now. */
  progress(): number;
  readonly signal: AbortSignal;
}

/**
 * Between two faults something gets done: on a machine so busy that processes need longer to start than faults to come, all would be dead most of the time,
 * and faults would meet nobody. So many times the average time between two faults are waited for it at most, for what nobody can work on.
 */
const WAITS_FOR_WORK = 8;

/** Injects one fault after another until the signal. Those that last (a freeze, a snapshot) overlap with the next ones. */
export async function runProcessFaults(options: ProcessFaultsOptions): Promise<void> {
  const { random, signal } = options;
  const deal = deck(random, PROCESS_FAULTS);
  const lasting = new Set<Promise<void>>();
  const frozen = new Set<number>();
  while (!signal.aborted) {
    const before = options.progress();
    await delay(options.everyMs * between(random, 0.5, 1.5), undefined, { signal }).catch(() => {});
    const until = performance.now() + options.everyMs * WAITS_FOR_WORK;
    while (!signal.aborted && options.progress() === before && performance.now() < until) await delay(20);
    if (signal.aborted) break;
    const kind = deal();
    const { lasts } = await inject(kind, options, frozen);
    options.injected(kind);
    if (lasts === undefined) continue;
    const over = lasts.finally(() => lasting.delete(over));
    lasting.add(over);
    over.catch(() => {}); // `Promise.all` below hears of it
  }
  await Promise.all(lasting);
}

/** Begins a fault; gives what is to be waited for when it lasts. */
async function inject(
  kind: ProcessFault,
  options: ProcessFaultsOptions,
  frozen: Set<number>,
): Promise<{ readonly lasts?: Promise<void> }> {
  const { random, relays } = options;
  const index = Math.floor(random() * options.relayCount);
  switch (kind) {
    case 'SIGKILL at random':
      relays.kill(index);
      return {};
    case 'SIGTERM':
      relays.terminate(index);
      return {};
    case 'SIGSTOP longer than the lease':
      if (frozen.has(index)) return {};
      frozen.add(index);
      return {
        lasts: relays
          .freeze(index, options.leaseSeconds * 1000 * between(random, 1.1, 1.6))
          .finally(() => frozen.delete(index)),
      };
    case 'connections cut':
      await cutConnections(options);
      return {};
    case 'PostgreSQL restarted in immediate mode':
      await options.crashPostgres();
      return {};
    case 'snapshot held open':
      return { lasts: holdSnapshot(options, between(random, 2_000, 6_000)) };
    case 'long writing transaction':
      return { lasts: options.longTransaction() };
    case 'consumer killed':
      options.consumers.kill(Math.floor(random() * options.consumers.count));
      return {};
    case 'consumer stopped longer than its messages are its own': {
      const stopped = Math.floor(random() * options.consumers.count);
      return { lasts: options.consumers.freeze(stopped, VISIBILITY_SECONDS * 1000 * between(random, 1.1, 1.3)) };
    }
  }
}

/** Relays lose all of theirs; of the others' each second one goes. */
async function cutConnections({ superuser }: ProcessFaultsOptions): Promise<void> {
  const client = await superuser();
  try {
    await client.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where usename = 'sealed_relay' or (usename in ('sealed_writer', 'sealed_ledger') and pid % 2 = 0)`,
    );
  } finally {
    await client.end();
  }
}

async function holdSnapshot({ superuser, signal }: ProcessFaultsOptions, ms: number): Promise<void> {
  const client = await superuser();
  try {
    await client.query('begin isolation level repeatable read');
    await client.query('select count(*) from outbox.partition');
    await delay(ms, undefined, { signal }).catch(() => {});
  } finally {
    // A restart of the server may have ended it before.
    await client.end().catch(() => {});
  }
}
