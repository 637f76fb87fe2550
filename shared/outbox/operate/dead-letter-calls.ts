import {
  ChangeMessageVisibilityBatchCommand,
  type DeleteMessageBatchRequestEntry,
  DeleteMessageBatchCommand,
  GetQueueAttributesCommand,
  type Message,
  ReceiveMessageCommand,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { SealedOutboxError } from '../../errors/index.ts';
import { awsCall } from '../publish/aws-call.ts';
import type { Clock } from '../relay/clock.ts';

/** A refused message is tried so often before the redrive gives up. */
export const TRIES = 3;
export const RETRY_MS = 1_000;

/** Two queues, and how their messages are moved. */
export interface Redrive {
  readonly client: SQSClient;
  readonly from: string;
  readonly to: string;
  readonly perSecond: number;
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly fifo: boolean;
}

export async function attributesOf(
  { client, timeoutMs }: Pick<Redrive, 'client' | 'timeoutMs'>,
  QueueUrl: string,
): Promise<Record<string, string>> {
  const command = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] });
  const { Attributes = {} } = await awsCall(timeoutMs, (abortSignal) => client.send(command, { abortSignal }));
  return Attributes;
}

export async function receive({ client, from, perSecond, timeoutMs }: Redrive): Promise<readonly Message[]> {
  const command = new ReceiveMessageCommand({
    QueueUrl: from,
    // No more than may leave in a second, or a slow pace would be ten at once and a long rest, which whoever goes on after the signal does not keep.
    MaxNumberOfMessages: Math.min(10, Math.max(1, Math.floor(perSecond))),
    // Also a standard queue then asks all of its servers, and an empty answer means empty.
    WaitTimeSeconds: 1,
    // Longer than sending and removing them takes, or they would be given out again meanwhile.
    VisibilityTimeout: 60,
    MessageSystemAttributeNames: ['All'],
    MessageAttributeNames: ['All'],
  });
  const { Messages = [] } = await awsCall(timeoutMs + 1_000, (abortSignal) => client.send(command, { abortSignal }));
  return Messages;
}

interface Sent {
  readonly accepted: readonly { readonly message: Message; readonly messageId: string }[];
  readonly refused: readonly { readonly message: Message; readonly code: string }[];
}

export async function send({ client, to, timeoutMs, fifo }: Redrive, messages: readonly Message[]): Promise<Sent> {
  const command = new SendMessageBatchCommand({
    QueueUrl: to,
    Entries: messages.map((message, index) => entryOf(message, index, fifo)),
  });
  const { Successful = [], Failed = [] } = await awsCall(timeoutMs, (abortSignal) =>
    client.send(command, { abortSignal }),
  );
  const ids = new Map(Successful.map(({ Id, MessageId }) => [Id, MessageId ?? '']));
  const codes = new Map(Failed.map(({ Id, Code }) => [Id, Code]));
  const accepted = [];
  const refused = [];
  for (const [index, message] of messages.entries()) {
    const messageId = ids.get(String(index));
    if (messageId !== undefined) accepted.push({ message, messageId });
    else refused.push({ message, code: codes.get(String(index)) ?? 'NoAnswer' });
  }
  return { accepted, refused };
}

/**
 * The same message. Its deduplication id is made of its id in the dead-letter queue: another one than that of the first send, which the queue may
 * still remember, and the same when this redrive is interrupted and repeated.
 */
function entryOf(
  { MessageId, Body, Attributes, MessageAttributes }: Message,
  index: number,
  fifo: boolean,
): SendMessageBatchRequestEntry {
  const { MessageGroupId, AWSTraceHeader } = Attributes ?? {};
  return {
    Id: String(index),
    MessageBody: Body,
    ...(MessageAttributes !== undefined && { MessageAttributes }),
    ...(AWSTraceHeader !== undefined && {
      MessageSystemAttributes: { AWSTraceHeader: { DataType: 'String', StringValue: AWSTraceHeader } },
    }),
    ...(MessageGroupId !== undefined && { MessageGroupId }),
    ...(fifo && { MessageDeduplicationId: `redrive-${MessageId}` }),
  };
}

/** The queue answers entry by entry here, too: what it kept would stay out of sight, with its group, and be counted as moved. */
export async function remove({ client, from, timeoutMs, clock }: Redrive, messages: readonly Message[]): Promise<void> {
  let rest = messages;
  for (let attempt = 1; rest.length > 0; attempt += 1) {
    if (attempt > 1) await clock.sleep(RETRY_MS);
    const Entries: DeleteMessageBatchRequestEntry[] = rest.map(({ ReceiptHandle }, index) => ({
      Id: String(index),
      ReceiptHandle,
    }));
    const command = new DeleteMessageBatchCommand({ QueueUrl: from, Entries });
    const { Failed = [] } = await awsCall(timeoutMs, (abortSignal) => client.send(command, { abortSignal }));
    const kept = new Set(Failed.map(({ Id }) => Id));
    rest = rest.filter((_, index) => kept.has(String(index)));
    if (rest.length > 0 && attempt === TRIES) {
      throw new SealedOutboxError(
        'REDRIVE_NOT_REMOVED',
        `${rest.length} messages were sent and could not be removed from the dead-letter queue (${Failed[0]?.Code}). Repeat the redrive within five minutes: it sends them with the same deduplication id.`,
      );
    }
  }
}

/** Messages that were received and stay: whoever looks next is not to find the queue empty. Where that fails they are visible again by themselves. */
export async function giveBack({ client, from, timeoutMs }: Redrive, messages: readonly Message[]): Promise<void> {
  if (messages.length === 0) return;
  const Entries = messages.map(({ ReceiptHandle }, index) => ({
    Id: String(index),
    ReceiptHandle,
    VisibilityTimeout: 0,
  }));
  const command = new ChangeMessageVisibilityBatchCommand({ QueueUrl: from, Entries });
  await awsCall(timeoutMs, (abortSignal) => client.send(command, { abortSignal })).catch(() => {});
}
