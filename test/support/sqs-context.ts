import { randomUUID } from 'node:crypto';
import {
  CreateQueueCommand,
  DeleteMessageBatchCommand,
  ReceiveMessageCommand,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { sqsPublisher } from '../../shared/outbox/index.ts';
import { type AwsAddress, sqsClient } from './aws-clients.ts';
import type { PublisherContext, ReceivedMessage } from './publisher-conformance.ts';

/** What makes SQS refuse one message and no other: a character that it does not carry. */
export const REFUSED_BY_SQS = { body: '{"text":"\uFFFE"}', code: 'InvalidMessageContents' };

/** A new queue, and the publisher to it. */
export async function sqsContext(aws: AwsAddress, fifo: boolean): Promise<PublisherContext> {
  const client = sqsClient(aws);
  const { url } = await createQueue(client, fifo);
  const reader = sqsClient(aws);
  return {
    publisher: sqsPublisher({ client, queueUrl: url, fifo }),
    receive: () => takeMessages(reader, url),
    missing: () => sqsPublisher({ client: sqsClient(aws), queueUrl: url.replace('queue-', 'missing-'), fifo }),
    wrongKind: () => sqsPublisher({ client: sqsClient(aws), queueUrl: url, fifo: !fifo }),
    at: (endpoint, timeoutMs) =>
      sqsPublisher({ client: sqsClient({ ...aws, endpoint }), queueUrl: url, fifo, timeoutMs }),
  };
}

export async function createQueue(client: SQSClient, fifo: boolean): Promise<{ url: string; name: string }> {
  const name = `queue-${randomUUID()}${fifo ? '.fifo' : ''}`;
  const { QueueUrl } = await client.send(
    new CreateQueueCommand({ QueueName: name, ...(fifo && { Attributes: { FifoQueue: 'true' } }) }),
  );
  return { url: QueueUrl ?? '', name };
}

/** Takes at most ten messages out of a queue; waits a second for the first. */
export async function takeMessages(client: SQSClient, queueUrl: string): Promise<ReceivedMessage[]> {
  const { Messages = [] } = await client.send(
    new ReceiveMessageCommand({
      QueueUrl: queueUrl,
      MaxNumberOfMessages: 10,
      WaitTimeSeconds: 1,
      MessageSystemAttributeNames: ['All'],
    }),
  );
  if (Messages.length > 0) {
    await client.send(
      new DeleteMessageBatchCommand({
        QueueUrl: queueUrl,
        Entries: Messages.map(({ ReceiptHandle }, index) => ({ Id: String(index), ReceiptHandle })),
      }),
    );
  }
  return Messages.map(({ Body = '', Attributes }) => ({ body: Body, groupId: Attributes?.MessageGroupId }));
}
