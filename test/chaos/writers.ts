import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { createOutbox, type OutboxEvent } from '../../shared/outbox/index.ts';
import { catalogue, type HandlerFault } from './catalogue.ts';
import { between, deck, type Random } from './random.ts';

/** What the writers know of their own transactions. Where a commit's answer was lost, only the database knows. */
export interface Ledger {
  /** The server said that these are committed. */
  readonly committed: Set<string>;
  /** These never were. */
  readonly rolledBack: Set<string>;
  /** The connection broke between the commit and its answer. */
  readonly ambiguous: Set<string>;
  readonly kinds: Map<string, number>;
}

export function emptyLedger(): Ledger {
  return { committed: new Set(), rolledBack: new Set(), ambiguous: new Set(), kinds: new Map() };
}

export interface WritersOptions {
  readonly pool: pg.Pool;
  readonly connections: number;
  readonly random: (name: string) => Random;
  readonly aggregates: number;
  /** An append has one event, or more up to this. */
  readonly eventsAtOnce: number;
  /** What the next event does to its handlers. */
  readonly handlerFault: () => HandlerFault | undefined;
  readonly ledger: Ledger;
  /** Whether a writer should wait before its next transaction: for the pace, or until the relays have caught up. */
  mustWait(): boolean;
  readonly signal: AbortSignal;
}

const outbox = createOutbox({ catalogue });
type Event = OutboxEvent<typeof catalogue>;

/** How transactions end, by their share of all. */
const ENDINGS = [
  { kind: 'commit', share: 0.8 },
  { kind: 'late commit', share: 0.08 },
  { kind: 'long transaction', share: 0.002 },
  { kind: 'rollback', share: 0.05 },
  { kind: 'rollback to savepoint', share: 0.068 },
] as const;
type Ending = (typeof ENDINGS)[number]['kind'];

/** Writers on connections of their own, until the signal. */
export async function runWriters(options: WritersOptions): Promise<void> {
  await Promise.all(Array.from({ length: options.connections }, (_, index) => write(options, index)));
}

async function write(options: WritersOptions, index: number): Promise<void> {
  const random = options.random(`writer ${index}`);
  while (!options.signal.aborted) {
    if (options.mustWait()) {
      await delay(10);
      continue;
    }
    try {
      await transact(options, endingOf(random), random);
    } catch (error) {
      if (!isFault(error)) throw error;
      await delay(100);
    }
  }
}

/** One transaction, whose fate is written into the ledger whatever happens. */
export async function transact(
  options: Pick<WritersOptions, 'pool' | 'aggregates' | 'eventsAtOnce' | 'handlerFault' | 'ledger'>,
  ending: Ending,
  random: Random,
): Promise<void> {
  const { ledger } = options;
  const client = await options.pool.connect();
  client.on('error', ignore);
  const kept: string[] = [];
  const dropped: string[] = [];
  let fate: Set<string> = ledger.rolledBack;
  let broken: Error | undefined;
  try {
    await client.query('begin');
    for (const { id } of await outbox.append(client, someEvents(random, options, ending))) kept.push(id);
    if (ending === 'rollback to savepoint') {
      await client.query('savepoint s');
      for (const { id } of await outbox.append(client, someEvents(random, options, ending))) dropped.push(id);
      await client.query('rollback to savepoint s');
      for (const { id } of await outbox.append(client, someEvents(random, options, ending))) kept.push(id);
    }
    await delay(holdMs(ending, random));
    if (ending === 'rollback') {
      await client.query('rollback');
    } else {
      fate = ledger.ambiguous;
      await client.query('commit');
      fate = ledger.committed;
    }
    ledger.kinds.set(ending, (ledger.kinds.get(ending) ?? 0) + 1);
  } catch (error) {
    broken = error as Error;
    throw error;
  } finally {
    for (const id of kept) fate.add(id);
    for (const id of dropped) ledger.rolledBack.add(id);
    client.off('error', ignore);
    // A connection that failed is not used again; its transaction ends with it.
    client.release(broken);
  }
}

function ignore(): void {}

function endingOf(random: Random): Ending {
  let left = random();
  for (const { kind, share } of ENDINGS) {
    left -= share;
    if (left < 0) return kind;
  }
  return 'commit';
}

/** Milliseconds between the append and the end. Mostly short, because an open transaction holds its aggregates. */
function holdMs(ending: Ending, random: Random): number {
  if (ending === 'late commit') return 50 + 1_950 * random() ** 6;
  if (ending === 'long transaction') return between(random, 2_000, 5_000);
  if (ending === 'rollback') return random() < 0.3 ? between(random, 20, 200) : 0;
  return 0;
}

/** Low numbers are the busy aggregates. What is held for seconds would stop everybody there, so it goes anywhere. */
function someEvents(
  random: Random,
  { aggregates, eventsAtOnce, handlerFault }: Pick<WritersOptions, 'aggregates' | 'eventsAtOnce' | 'handlerFault'>,
  ending: Ending,
): Event[] {
  const skew = ending === 'long transaction' ? 1 : 2;
  const name = (): string => accountName(random, aggregates, skew);
  const one = random() < 0.5 ? name() : undefined;
  return Array.from({ length: 1 + Math.floor(random() * eventsAtOnce) }, () => ({
    type: typeOf(random()),
    aggregate: { type: 'account', id: one ?? name() },
    data: dataOf(random, handlerFault()),
  }));
}

function typeOf(share: number): Event['type'] {
  if (share < 0.7) return 'account.noted';
  return share < 0.9 ? 'account.changed' : 'account.alerted';
}

function dataOf(random: Random, fault: HandlerFault | undefined): Event['data'] {
  const data = {
    text: 'x'.repeat(Math.floor(400 * random() ** 3)),
    amount: Math.floor(between(random, -1_000, 1_000)),
  };
  return fault === undefined ? data : { ...data, fault };
}

/** Low numbers are busy when the skew is 2. */
export function accountName(random: Random, aggregates: number, skew: number): string {
  return `account-${Math.floor(aggregates * random() ** skew)}`;
}

/** One event of so many, on average, makes trouble for its handlers, and each kind has its turn. Without kinds, none does. */
export function handlerFaultsOf(
  random: Random,
  oneOf: number,
  kinds: readonly HandlerFault[],
): () => HandlerFault | undefined {
  const deal = deck(random, kinds);
  return () => (kinds.length > 0 && random() * oneOf < 1 ? deal() : undefined);
}

/** What a cut connection, a crashed server and a deadlock look like. Anything else is a mistake of the run or of the outbox. */
export function isFault(error: unknown): boolean {
  const { code, message } = error as { code?: string; message?: string };
  if (code === undefined) return /connection|timeout|terminated/i.test(message ?? '');
  return /^(57|08|40|ECONN|EPIPE|ETIMEDOUT)/.test(code);
}
