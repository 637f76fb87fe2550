import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { eventConsumer, type Handlers } from '../../shared/inbox/index.ts';
import { noMetrics, silentLog } from '../../shared/telemetry/index.ts';
import { invoke } from '../support/sqs-batch.ts';
import { catalogue } from './catalogue.ts';
import { type Queue, queueAt } from './queue-calls.ts';
import type { Random } from './random.ts';

/** Where the effects go; a second effect of one event is not refused here but seen by the verdict. */
export const EFFECTS = `
  create table effect (
    place bigint generated always as identity primary key,
    consumer text not null, event_id uuid not null, aggregate_id text not null, sequence bigint not null
  );
  grant select, insert on effect to sealed_ledger`;

export interface ConsumersOptions {
  /** Port of the queue itself: consumers do not go through the fault proxy. */
  readonly queuePort: number;
  readonly urls: Readonly<Record<string, string>>;
  readonly pool: pg.Pool;
  readonly random: (name: string) => Random;
  readonly signal: AbortSignal;
  readonly report: (report: ConsumerReport) => void;
}

export type ConsumerReport =
  /** Effects were committed, but the consumer died before it could acknowledge their messages. */
  | { readonly injected: string }
  /** So many messages were acknowledged. */
  | { readonly acknowledged: number };

/** Chance that a batch is applied and not acknowledged. */
const CRASHES = 0.02;
const LOOPS = 6;

/** Consumers of both queues, as Lambda would run them: `ledger` in strict order, `search` in any. */
export async function runConsumers(options: ConsumersOptions): Promise<void> {
  const { pool } = options;
  const common = { catalogue, pool, log: silentLog, metrics: noMetrics };
  const handlers = {
    ledger: eventConsumer({
      ...common,
      name: 'ledger',
      handlers: effects('ledger'),
      mode: 'strict',
      startingPoint: 'beginning',
      destination: 'ledger',
    }),
    search: eventConsumer({ ...common, name: 'search', handlers: effects('search'), mode: 'any' }),
  };
  await Promise.all(
    Object.entries(handlers).flatMap(([name, handler]) => {
      const queue = queueAt(options.queuePort, options.urls[name] ?? '');
      return Array.from({ length: LOOPS }, (_, index) =>
        consume(queue, handler, options.random(`consumer ${name} ${index}`), options),
      );
    }),
  );
}

function effects(consumer: string): Handlers<typeof catalogue> {
  const write: NonNullable<Handlers<typeof catalogue>['account.changed']> = async (event, { tx }) => {
    await tx.query('insert into effect (consumer, event_id, aggregate_id, sequence) values ($1, $2, $3, $4)', [
      consumer,
      event.id,
      event.aggregateId,
      event.sequence,
    ]);
  };
  return {
    'account.changed': write,
    'account.noted': write as unknown as NonNullable<Handlers<typeof catalogue>['account.noted']>,
  };
}

async function consume(
  queue: Queue,
  handler: unknown,
  random: Random,
  { signal, report }: ConsumersOptions,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const records = await queue.receive(signal);
      if (records.length === 0) continue;
      let returned = new Set(await invoke(handler, records));
      if (returned.size > 0) await delay(50);
      if (random() < CRASHES) {
        report({ injected: 'consumer crash before acknowledgement' });
        returned = new Set(records.map(({ messageId }) => messageId));
      }
      const back = records.filter(({ messageId }) => returned.has(messageId));
      const done = records.filter(({ messageId }) => !returned.has(messageId));
      await queue.acknowledge(done);
      await queue.giveBack(back);
      if (done.length > 0) report({ acknowledged: done.length });
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}
