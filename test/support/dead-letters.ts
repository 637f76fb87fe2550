import { ReceiveMessageCommand, SendMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { startFauxqs } from 'fauxqs';
import { afterAll } from 'vitest';
import { sqsClient } from './aws-clients.ts';

export interface DeadLetters {
  readonly client: SQSClient;
  /** As the operator's function knows them. */
  readonly pair: { readonly queue: string; readonly deadLetters: string };
  put(group: string, body: string): Promise<void>;
  /** All that a receiver of the queue is given, up to ten messages. */
  received(): Promise<unknown>;
}

/** A FIFO queue with its dead-letter queue, in this process; stopped after the file's tests. */
export async function deadLetterQueues(): Promise<DeadLetters> {
  const server = await startFauxqs({ port: 0, host: '127.0.0.1', logger: false });
  const client = sqsClient({
    endpoint: `http://127.0.0.1:${server.port}`,
    region: 'us-east-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  });
  afterAll(async () => {
    client.destroy();
    await server.stop();
  });
  const FifoQueue = 'true';
  const { queueUrl: deadLetters } = server.createQueue('dead.fifo', { attributes: { FifoQueue } });
  const deadLetterTargetArn = 'arn:aws:sqs:us-east-1:000000000000:dead.fifo';
  const RedrivePolicy = JSON.stringify({ deadLetterTargetArn, maxReceiveCount: 1 });
  const { queueUrl: queue } = server.createQueue('live.fifo', { attributes: { FifoQueue, RedrivePolicy } });
  let sent = 0;
  return {
    client,
    pair: { queue, deadLetters },
    async put(group, body) {
      sent += 1;
      const ids = { MessageGroupId: group, MessageDeduplicationId: String(sent) };
      await client.send(new SendMessageCommand({ QueueUrl: deadLetters, MessageBody: body, ...ids }));
    },
    received: async () =>
      client.send(
        new ReceiveMessageCommand({
          QueueUrl: queue,
          MaxNumberOfMessages: 10,
          MessageSystemAttributeNames: ['All'],
          MessageAttributeNames: ['All'],
        }),
      ),
  };
}
