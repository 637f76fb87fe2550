/** A consumer in a process of its own, as one sandbox of the sample's ledger runs it, with a stopwatch at its connections. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Context, SQSEvent, SQSRecord } from 'aws-lambda';
import { catalogue } from '../functions/sample/catalogue/index.ts';
import { handlers } from '../functions/sample/ledger/handlers.ts';
import { eventConsumer, type HandlerContext, type Handlers, noMetrics } from '../shared/inbox/index.ts';
import { bareConsumer, plainWrites } from './harness/bare-consumer.ts';
import { type CountedPool, countedPool } from './harness/counted-pool.ts';
import type {
  BatchesInput,
  BatchesResult,
  ConsumerStart,
  DrainResult,
  SteadyInput,
  Variant,
} from './harness/consumer.ts';
import { holdEvents } from './harness/held-events.ts';
import { batches, invoiceIds, invoiceRecord } from './harness/invoices.ts';
import { answerQuestions } from './harness/process.ts';
import { cpuMeter } from './harness/server-cpu.ts';

const CONNECTIONS = 4;
/** What a consumer has in one transaction of ten messages. */
const TOGETHER = { many: 10, each: 5 };

/** The ledger's handlers, each given one event at a time. */
const each = Object.fromEntries(
  Object.entries(handlers).map(([type, { handleMany }]) => [
    type,
    (event: never, { tx }: HandlerContext) => handleMany([event], { tx }),
  ]),
) as Handlers<typeof catalogue>;

/** Warnings and errors only: a benchmark in which something is refused must not look fast. */
const log = {
  debug() {},
  info() {},
  warn: (message: string, ...fields: unknown[]) => console.error('consumer:', message, ...fields),
  error: (message: string, ...fields: unknown[]) => console.error('consumer:', message, ...fields),
};
const options = {
  name: 'ledger',
  mode: 'strict',
  startingPoint: 'beginning',
  destination: 'ledger',
  catalogue,
  handlers,
  log,
  metrics: noMetrics,
} as const;

let counted: CountedPool;
let gaps: readonly string[] = [];
let consumers: Readonly<Record<Variant, (records: readonly SQSRecord[]) => Promise<void>>>;
let ledger: ReturnType<typeof eventConsumer>;

/** As Lambda would: five minutes from now. */
function context(): Context {
  const end = performance.now() + 300_000;
  return { getRemainingTimeInMillis: () => end - performance.now() } as Context;
}

function sandbox(consumer: ReturnType<typeof eventConsumer>): (records: readonly SQSRecord[]) => Promise<void> {
  return async (records) => {
    const { batchItemFailures } = await consumer({ Records: [...records] } satisfies SQSEvent, context());
    if (batchItemFailures.length > 0) throw new Error(`${batchItemFailures.length} messages were returned`);
  };
}

async function measured<T>(work: () => Promise<T>): Promise<[T, Omit<BatchesResult, 'events' | 'batchMs'>]> {
  const { counts, serverProcesses } = counted;
  Object.assign(counts, { statements: 0, transactions: 0 });
  const serverCpu = cpuMeter(serverProcesses);
  const cpu = process.cpuUsage();
  const startedAt = performance.now();
  const result = await work();
  const seconds = (performance.now() - startedAt) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return [result, { seconds, cpuSeconds: (user + system) / 1e6, serverCpuSeconds: serverCpu(), ...counts }];
}

async function inTurn(
  work: (records: readonly SQSRecord[]) => Promise<void>,
  list: readonly (readonly SQSRecord[])[],
): Promise<number[]> {
  const times: number[] = [];
  for (const records of list) {
    const startedAt = performance.now();
    await work(records);
    times.push(performance.now() - startedAt);
  }
  return times;
}

let steady: { stop: boolean; done: Promise<number[]> } | undefined;

answerQuestions({
  async start(start: ConsumerStart): Promise<void> {
    counted = countedPool({ ...start.connection, max: CONNECTIONS });
    const { pool } = counted;
    ledger = eventConsumer({ ...options, pool });
    const single = counted.sharing(1);
    consumers = {
      together: sandbox(ledger),
      alone: sandbox(eventConsumer({ ...options, pool, together: 1 })),
      bare: bareConsumer(pool, catalogue, handlers, TOGETHER.many),
      bareAlone: bareConsumer(pool, catalogue, handlers, 1),
      floor: bareConsumer(pool, catalogue, handlers, TOGETHER.many, plainWrites),
      each: sandbox(eventConsumer({ ...options, handlers: each, pool })),
      eachBare: bareConsumer(pool, catalogue, each, TOGETHER.each),
      eachFloor: bareConsumer(pool, catalogue, each, TOGETHER.each, plainWrites),
      oneTogether: sandbox(eventConsumer({ ...options, pool: single })),
      oneAlone: sandbox(eventConsumer({ ...options, pool: single, together: 1 })),
    };
    // All connections open, and the consumer registered.
    for (const opened of [pool, single]) {
      const clients = await Promise.all(Array.from({ length: opened.options.max }, () => opened.connect()));
      for (const client of clients) client.release();
    }
    await consumers.together([]);
  },

  async batches({ variant, invoices, events }: BatchesInput): Promise<BatchesResult> {
    const list = batches({ ids: invoiceIds(invoices), events });
    const [batchMs, rest] = await measured(() => inTurn(consumers[variant], list));
    return { ...rest, events: invoices * events, batchMs };
  },

  async hold({ invoices, events }: Omit<BatchesInput, 'variant'>): Promise<void> {
    gaps = invoiceIds(invoices);
    await holdEvents(counted.pool, options, { ids: gaps, events, first: 2 });
  },

  async drain(): Promise<DrainResult> {
    const closing = batches({ ids: gaps, events: 1 });
    const [batchMs, rest] = await measured(async () => {
      const times = await inTurn(consumers.together, closing);
      await ledger({ action: 'drain-held' }, context());
      return times;
    });
    const { rows } = await counted.pool.query('select count(*)::integer as held from inbox.held_event');
    if (rows[0].held > 0) throw new Error(`${rows[0].held} events are still held`);
    return { ...rest, batchMs };
  },

  async startSteady({ rate, invoices }: SteadyInput): Promise<void> {
    const ids = invoiceIds(invoices);
    const run = { stop: false };
    const work = async (): Promise<number[]> => {
      const times: number[] = [];
      const startedAt = performance.now();
      for (let n = 0; !run.stop; n += 1) {
        const due = startedAt + (n * 1000) / rate;
        await delay(Math.max(0, due - performance.now()));
        const first = (n * 10) % invoices;
        const sequence = Math.floor((n * 10) / invoices) + 1;
        await consumers.together(ids.slice(first, first + 10).map((id) => invoiceRecord(id, sequence)));
        // From when it was due: a batch that has to wait for the one before is slower, too.
        times.push(performance.now() - due);
      }
      return times;
    };
    steady = Object.assign(run, { done: work() });
  },

  async endSteady(): Promise<number[]> {
    if (steady === undefined) return [];
    steady.stop = true;
    return steady.done;
  },
});
