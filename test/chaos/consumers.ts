import type { SQSRecord } from 'aws-lambda';
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { mailClient } from '../../functions/sample/notifications/mail-client.ts';
import {
  type BeforeContext,
  eventConsumer,
  type HandlerContext,
  type HandlerSteps,
  type ManyContext,
  type ManyHandler,
} from '../../shared/inbox/index.ts';
import { noMetrics } from '../../shared/telemetry/index.ts';
import { contextFor, drainOf } from '../support/sqs-batch.ts';
import { catalogue, CONSUMERS, type ConsumerName } from './catalogue.ts';
import { deliveries } from './deliveries.ts';
import { handlerFaults, type HandlerFaults } from './handler-faults.ts';
import { type Queue, queueAt } from './queue-calls.ts';
import type { Random } from './random.ts';
import { unexplainedLog, type UnexplainedReport } from './unexplained.ts';
import { type AccountData, type AccountEvent, writeEffect } from './read-models.ts';

/**
 * `no-dedupe` is ours in a database that keeps no dedupe row; `acknowledges-first` deletes messages before it applies them. Both must be
 * caught.
 */
export type ConsumerKind = 'ours' | 'no-dedupe' | 'acknowledges-first';

export interface ConsumersOptions {
  readonly kind: ConsumerKind;
  /** Port of the queue itself: consumers do not go through the fault proxy. */
  readonly queuePort: number;
  readonly urls: Readonly<Record<string, string>>;
  /** Of the provider that notifications call. */
  readonly providerUrl: string;
  readonly pool: pg.Pool;
  /** For what handlers remember outside of their transactions. */
  readonly aside: pg.Pool;
  readonly random: (name: string) => Random;
  /** Share of the batches that are delivered more than once. */
  readonly redelivered: number;
  readonly signal: AbortSignal;
  readonly report: (report: ConsumerReport) => void;
}

export type ConsumerReport =
  | { readonly injected: string; readonly times: number }
  /** So many messages were acknowledged. */
  | { readonly acknowledged: number }
  | UnexplainedReport;

/** Chance that a batch is applied and not acknowledged. */
const CRASHES = 0.03;
/** Pollers of each queue. */
const LOOPS = 3;
const CALL_MS = 600;
/** An invocation of the schedule that has consumers go on with what is held. Milliseconds. */
const DRAIN_MS = 5_000;
/** Between two looks of one poller when its queue gives back or is empty. Milliseconds. */
const PAUSE_MS = 100;

/** Consumers of all queues, as Lambda would run them. */
export async function runConsumers(options: ConsumersOptions): Promise<void> {
  const { pool, aside, report, urls, queuePort } = options;
  const faults = handlerFaults(aside, (injected) => report({ injected, times: 1 }));
  const common = { catalogue, pool, log: unexplainedLog(report), metrics: noMetrics };
  const handlers = {
    ledger: eventConsumer({
      ...common,
      name: 'ledger',
      mode: 'strict',
      startingPoint: 'beginning',
      destination: 'ledger',
      handlers: {
        'account.noted': effects('ledger', faults),
        'account.changed': effectsOfMany('ledger', faults),
        'account.alerted': effects('ledger', faults),
      },
    }),
    notifications: eventConsumer({
      ...common,
      name: 'notifications',
      mode: 'any',
      handlers: { 'account.alerted': mails(options.providerUrl, faults) },
    }),
    search: eventConsumer({
      ...common,
      name: 'search',
      mode: 'latest',
      handlers: { 'account.changed': effects('search', faults) },
    }),
    analytics: eventConsumer({
      ...common,
      name: 'analytics',
      mode: 'any',
      handlers: { 'account.changed': effectsOfMany('analytics', faults) },
    }),
  } satisfies Record<ConsumerName, unknown>;
  await Promise.all(
    CONSUMERS.flatMap((name) => {
      const url = urls[name] ?? '';
      const queue = queueAt(queuePort, url);
      return Array.from({ length: LOOPS }, (_, index) =>
        poll(queue, url.endsWith('.fifo'), handlers[name], options.random(`${name} ${index}`), options, index === 0),
      );
    }),
  );
}

type Steps = HandlerSteps<never>;

function effects(consumer: ConsumerName, faults: HandlerFaults): Steps {
  return {
    async handle(event: AccountEvent, { tx }: HandlerContext): Promise<void> {
      await faults.meet(consumer, event, tx);
      await writeEffect(tx, consumer, event);
    },
  } satisfies HandlerSteps<AccountEvent>;
}

/** The same, given many events at once. */
function effectsOfMany(consumer: ConsumerName, faults: HandlerFaults): ManyHandler<never> {
  return {
    async handleMany(events: readonly AccountEvent[], { tx }: ManyContext): Promise<void> {
      for (const event of events) {
        await faults.meet(consumer, event, tx);
        await writeEffect(tx, consumer, event);
      }
    },
  } satisfies ManyHandler<AccountEvent>;
}

/** One mail for each event, and the provider's id of it in the effect. */
function mails(providerUrl: string, faults: HandlerFaults): Steps {
  const provider = mailClient(providerUrl);
  return {
    before: async (event: AccountEvent, { once }: BeforeContext): Promise<{ id: string }> =>
      once(
        'mail',
        (key, signal) =>
          provider.send(
            key,
            { to: 'somebody@chaos.invalid', subject: 'alert', text: String(event.data.amount), reference: event.id },
            signal,
          ),
        { lookup: (key, signal) => provider.find(key, signal), unanswered: 'retry', timeoutMs: CALL_MS, needsMs: 100 },
      ),
    async handle(event: AccountEvent, { tx, before }: HandlerContext<{ id: string }>): Promise<void> {
      await faults.meet('notifications', event, tx);
      await writeEffect(tx, 'notifications', event, before.id);
    },
  } satisfies HandlerSteps<AccountEvent, { id: string }>;
}

async function poll(
  queue: Queue,
  fifo: boolean,
  handler: unknown,
  random: Random,
  { kind, redelivered, signal, report }: ConsumersOptions,
  drains: boolean,
): Promise<void> {
  const injected = (what: string, times: number): void => report({ injected: what, times });
  const log = unexplainedLog(report);
  const lookAt = ({ code, name }: Error & { code?: string }): void =>
    log.error('going on with what is held failed', { code: code ?? name });
  const { deliver } = deliveries({ handler, fifo, random, share: redelivered, injected });
  while (!signal.aborted) {
    try {
      const records = await queue.receive(signal);
      if (records.length === 0) {
        if (drains) await drainOf(handler, contextFor(DRAIN_MS)).catch(lookAt);
        continue;
      }
      if (kind === 'acknowledges-first') await queue.acknowledge(records);
      let done: ReadonlySet<string> = new Set();
      if (!fifo || !records.some(isDoomed)) done = await deliver(records);
      else injected('message returned until it is a dead letter', 1);
      if (done.size > 0 && random() < CRASHES) {
        injected('consumer crash before acknowledgement', 1);
        done = new Set();
      }
      const acknowledged = records.filter(({ messageId }) => done.has(messageId));
      const back = records.filter(({ messageId }) => !done.has(messageId));
      await queue.acknowledge(acknowledged);
      if (back.length > 0) await delay(PAUSE_MS);
      await queue.giveBack(back);
      if (acknowledged.length > 0) report({ acknowledged: acknowledged.length });
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

/** A function that is broken for this message, until it comes from the dead-letter queue. */
function isDoomed({ body, attributes }: SQSRecord): boolean {
  const { data } = JSON.parse(body) as { data: AccountData };
  return data.fault === 'dead' && attributes.MessageDeduplicationId?.startsWith('redrive-') !== true;
}
