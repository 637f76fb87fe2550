import {
  ChangeMessageVisibilityBatchCommand,
  DeleteMessageBatchCommand,
  ReceiveMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { eventConsumer, type Handlers } from '../../shared/inbox/index.ts';
import { noMetrics, silentLog } from '../../shared/telemetry/index.ts';
import { invoke } from '../support/sqs-batch.ts';
import { catalogue } from './catalogue.ts';
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
  /** An effect was committed, but the consumer died before it could acknowledge the message. */
  readonly injected: (kind: string) => void;
}

/** Chance that a batch is applied and not acknowledged. */
const CRASHES = 0.02;
const LOOPS = 2;

/** Consumers of both queues, as Lambda would run them: `ledger` in strict order, `search` in any. */
export async function runConsumers(options: ConsumersOptions): Promise<void> {
  const { pool } = options;
  const client = new SQSClient({
    endpoint: `http://127.0.0.1:${options.queuePort}`,
    region: 'us-east-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    useQueueUrlAsEndpoint: false,
    maxAttempts: 1,
  });
  const common = { catalogue, pool, log: silentLog, metrics: noMetrics };
  const handlers = {
    ledger: eventConsumer({
      ...common,
      name: 'ledger',
      handlers: effects('ledger'),
      mode: 'strict',
      startingPoint: 'beginning',
    }),
    search: eventConsumer({ ...common, name: 'search', handlers: effects('search'), mode: 'any' }),
  };
  try {
    await Promise.all(
      Object.entries(handlers).flatMap(([name, handler]) =>
        Array.from({ length: LOOPS }, (_, index) =>
          consume(client, options.urls[name] ?? '', handler, options.random(`consumer ${name} ${index}`), options),
        ),
      ),
    );
  } finally {
    client.destroy();
  }
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
  client: SQSClient,
  queueUrl: string,
  handler: unknown,
  random: Random,
  { signal, injected }: ConsumersOptions,
): Promise<void> {
  while (!signal.aborted) {
    try {
      const records = await receive(client, queueUrl, signal);
      if (records.length === 0) continue;
      let returned = new Set(await invoke(handler, records));
      if (returned.size > 0) await delay(50);
      if (random() < CRASHES) {
        injected('consumer crash before acknowledgement');
        returned = new Set(records.map(({ messageId }) => messageId));
      }
      await acknowledge(client, queueUrl, records, returned);
    } catch (error) {
      if (signal.aborted) return;
      const { name } = error as Error;
      if (name !== 'TimeoutError') throw error;
    }
  }
}

async function acknowledge(
  client: SQSClient,
  queueUrl: string,
  records: readonly SQSRecord[],
  returned: ReadonlySet<string>,
): Promise<void> {
  const entries = records.map(({ messageId, receiptHandle }, index) => ({
    messageId,
    entry: { Id: String(index), ReceiptHandle: receiptHandle },
  }));
  const back = entries.filter(({ messageId }) => returned.has(messageId));
  const done = entries.filter(({ messageId }) => !returned.has(messageId));
  if (done.length > 0) {
    await client.send(new DeleteMessageBatchCommand({ QueueUrl: queueUrl, Entries: done.map(({ entry }) => entry) }));
  }
  if (back.length > 0) {
    const Entries = back.map(({ entry }) => ({ ...entry, VisibilityTimeout: 0 }));
    await client.send(new ChangeMessageVisibilityBatchCommand({ QueueUrl: queueUrl, Entries }));
  }
}

async function receive(client: SQSClient, queueUrl: string, signal: AbortSignal): Promise<SQSRecord[]> {
  const { Messages = [] } = await client.send(
    new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: 1,
      VisibilityTimeout: 120,
      MessageSystemAttributeNames: ['All'],
    }),
    { abortSignal: signal },
  );
  return Messages.map((message) => ({
    messageId: message.MessageId ?? '',
    receiptHandle: message.ReceiptHandle ?? '',
    body: message.Body ?? '',
    attributes: message.Attributes as unknown as SQSRecord['attributes'],
    messageAttributes: {},
    md5OfBody: message.MD5OfBody ?? '',
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:us-east-1:000000000000:chaos.fifo',
    awsRegion: 'us-east-1',
  }));
}
