import {
  ChangeMessageVisibilityCommand,
  DeleteMessageCommand,
  ReceiveMessageCommand,
  SQSClient,
} from '@aws-sdk/client-sqs';
import type { SQSRecord } from 'aws-lambda';
import { startFauxqs } from 'fauxqs';
import { afterAll } from 'vitest';
import { type Publisher, sqsPublisher } from '../../shared/outbox/index.ts';
import { invoke } from './sqs-batch.ts';

export interface TestQueue {
  readonly url: string;
  readonly client: SQSClient;
  /** The publisher that the relay uses. */
  publisher(): Publisher;
  /** One batch, as the event source mapping of Lambda would take it. */
  receive(): Promise<SQSRecord[]>;
  /** Receives batches, hands each to `consumer`, removes what it did not return; until the queue gives nothing more. */
  consume(consumer: unknown): Promise<number>;
}

/**
 * SQS takes all of #x10000–#x10FFFF; fauxqs 2.4.1 looks at UTF-16 halves and refuses every emoji. This mends its test of characters.
 */
export async function acceptAstralCharacters(): Promise<void> {
  const { INVALID_MESSAGE_BODY_CHAR } = await import(new URL('sqs/sqsTypes.js', import.meta.resolve('fauxqs')).href);
  INVALID_MESSAGE_BODY_CHAR.test = (body: string): boolean =>
    // oxlint-disable-next-line no-control-regex -- the characters that SQS documents
    /[^\x09\x0A\x0D\x20-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/u.test(body);
}

/** SQS in this process, on 127.0.0.1; stopped after the file's tests. */
export async function testQueue(name = 'test.fifo'): Promise<TestQueue> {
  await acceptAstralCharacters();
  const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
  const fifo = name.endsWith('.fifo');
  const { queueUrl } = server.createQueue(name, { attributes: fifo ? { FifoQueue: 'true' } : {} });
  const client = new SQSClient({
    endpoint: `http://127.0.0.1:${server.port}`,
    region: 'us-east-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    useQueueUrlAsEndpoint: false,
    maxAttempts: 1,
  });
  afterAll(async () => {
    client.destroy();
    await server.stop();
  });

  const receive = async (): Promise<SQSRecord[]> => {
    const { Messages = [] } = await client.send(
      new ReceiveMessageCommand({
        QueueUrl: queueUrl,
        MaxNumberOfMessages: 10,
        VisibilityTimeout: 60,
        MessageSystemAttributeNames: ['All'],
      }),
    );
    return Messages.map((message) => ({
      messageId: message.MessageId ?? '',
      receiptHandle: message.ReceiptHandle ?? '',
      body: message.Body ?? '',
      attributes: message.Attributes as unknown as SQSRecord['attributes'],
      messageAttributes: {},
      md5OfBody: message.MD5OfBody ?? '',
      eventSource: 'aws:sqs',
      eventSourceARN: `arn:aws:sqs:us-east-1:000000000000:${name}`,
      awsRegion: 'us-east-1',
    }));
  };

  return {
    url: queueUrl,
    client,
    publisher: () => sqsPublisher({ client, queueUrl, fifo }),
    receive,
    async consume(consumer) {
      let batches = 0;
      for (let records = await receive(); records.length > 0; records = await receive()) {
        batches += 1;
        const returned = new Set(await invoke(consumer, records));
        for (const record of records) {
          const { receiptHandle: ReceiptHandle } = record;
          if (returned.has(record.messageId)) {
            await client.send(
              new ChangeMessageVisibilityCommand({ QueueUrl: queueUrl, ReceiptHandle, VisibilityTimeout: 0 }),
            );
          } else {
            await client.send(new DeleteMessageCommand({ QueueUrl: queueUrl, ReceiptHandle }));
          }
        }
      }
      return batches;
    },
  };
}
