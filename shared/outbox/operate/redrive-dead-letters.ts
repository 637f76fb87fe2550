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
import { type Clock, systemClock } from '../relay/clock.ts';

export interface DeadLetterRedrive {
  readonly client: SQSClient;
  /** URL of the dead-letter queue. */
  readonly from: string;
  /** URL of the queue whose dead letters these are. */
  readonly to: string;
  /** Messages a second at most; default 50. */
  readonly perSecond?: number;
  /** Only counts. */
  readonly dryRun?: boolean;
  /** Ends early, after the call in flight. */
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
  /** Of each call; default 5,000 ms, to which a receive adds its second of waiting. */
  readonly timeoutMs?: number;
}

export interface DeadLettersRedriven {
  /** Messages in the dead-letter queue at the start, as SQS counts them: approximately. */
  readonly waiting: number;
  /** Accepted by the queue and removed from the dead-letter queue. */
  readonly moved: number;
  /**
   * Messages in the dead-letter queue at the end, counted likewise, with those that another receiver, or a redrive that was killed, has out. Null where
   * SQS did not answer any more.
   */
  readonly left: number | null;
  /**
   * - `empty`: nothing more is given out;
   * - `came-back`: a message that this call has sent is in the dead-letter queue again: the consumer still fails, and the rest was left there;
   * - `stopped`: by `signal`; `counted`: a dry run.
   */
  readonly ended: 'empty' | 'came-back' | 'stopped' | 'counted';
}

const DEFAULT_PER_SECOND = 50;
const DEFAULT_TIMEOUT_MS = 5_000;
/** A refused message is tried so often before the redrive gives up. */
const TRIES = 3;
const RETRY_MS = 1_000;
/** What SQS takes in one call, attributes counted. */
const CALL_BYTES = 1_048_576;

interface Redrive extends Required<
  Pick<DeadLetterRedrive, 'client' | 'from' | 'to' | 'perSecond' | 'clock' | 'timeoutMs'>
> {
  readonly fifo: boolean;
}

/**
 * Sends the messages of a dead-letter queue to their queue again: each group in order, at a bounded rate, beside live traffic. A message is removed
 * only when the queue has accepted it, so a crash at any point loses nothing; one that is then sent twice has the same deduplication id, and the
 * consumer's dedupe row absorbs it after the queue's five minutes. What was received and not sent is visible again at once, unless the process is
 * killed: then after a minute, or 20 messages' time at this rate where that is more. Run one at a time.
 *
 * @throws SealedOutboxError: `REDRIVE_QUEUES` when the two do not belong together, `REDRIVE_REFUSED` when the queue refuses a message. PublishError
 * for a call that failed. What was not accepted stays in the dead-letter queue.
 * @example await redriveDeadLetters({ client, from: deadLetterQueueUrl, to: queueUrl, perSecond: 20 })
 */
export async function redriveDeadLetters(options: DeadLetterRedrive): Promise<DeadLettersRedriven> {
  const { client, from, to, signal, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const { perSecond = DEFAULT_PER_SECOND, clock = systemClock } = options;
  if (!(perSecond > 0)) throw new SealedOutboxError('REDRIVE_OPTIONS', 'perSecond must be above 0. Nothing was sent.');
  const { fifo, waiting } = await checkQueues(client, from, to, timeoutMs);
  if (options.dryRun === true) return { waiting, moved: 0, left: waiting, ended: 'counted' };

  const redrive: Redrive = { client, from, to, perSecond, clock, timeoutMs, fifo };
  const { moved, ended } = await redriveUntil(redrive, signal);
  const left = await attributesOf(redrive, from).then(depthOf, () => null);
  return { waiting, moved, left, ended };
}

async function redriveUntil(
  redrive: Redrive,
  signal: AbortSignal | undefined,
): Promise<Pick<DeadLettersRedriven, 'moved' | 'ended'>> {
  const { perSecond, clock } = redrive;
  const sent = new Set<string>();
  let moved = 0;
  const isStopped = (): boolean => signal?.aborted === true;
  while (!isStopped()) {
    const messages = await receive(redrive);
    if (messages.length === 0) return { moved, ended: 'empty' };
    const back = messages.findIndex(({ MessageId }) => sent.has(MessageId ?? ''));
    const before = clock.monotonic();
    const batch = back === -1 ? messages : messages.slice(0, back);
    const removed = new Set<Message>();
    try {
      await move(redrive, batch, sent, removed);
    } finally {
      await giveBack(
        redrive,
        messages.filter((message) => !removed.has(message)),
      );
    }
    moved += batch.length;
    if (back !== -1) return { moved, ended: 'came-back' };
    await clock.sleep(Math.max(0, (batch.length * 1000) / perSecond - (clock.monotonic() - before)), signal);
  }
  return { moved, ended: 'stopped' };
}

async function checkQueues(
  client: SQSClient,
  from: string,
  to: string,
  timeoutMs: number,
): Promise<{ fifo: boolean; waiting: number }> {
  const [dead, live] = [await attributesOf({ client, timeoutMs }, from), await attributesOf({ client, timeoutMs }, to)];
  const { deadLetterTargetArn } = JSON.parse(live['RedrivePolicy'] ?? '{}') as { deadLetterTargetArn?: string };
  if (dead['QueueArn'] === undefined || deadLetterTargetArn !== dead['QueueArn']) {
    throw new SealedOutboxError(
      'REDRIVE_QUEUES',
      'the redrive policy of `to` does not name `from`: these are not its dead letters. Nothing was sent.',
    );
  }
  return { fifo: dead['FifoQueue'] === 'true', waiting: depthOf(dead) };
}

async function attributesOf(
  { client, timeoutMs }: Pick<Redrive, 'client' | 'timeoutMs'>,
  QueueUrl: string,
): Promise<Record<string, string>> {
  const command = new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['All'] });
  const { Attributes = {} } = await awsCall(timeoutMs, (abortSignal) => client.send(command, { abortSignal }));
  return Attributes;
}

function depthOf(attributes: Record<string, string>): number {
  const { ApproximateNumberOfMessages = '0', ApproximateNumberOfMessagesNotVisible = '0' } = attributes;
  return Number(ApproximateNumberOfMessages) + Number(ApproximateNumberOfMessagesNotVisible);
}

async function receive({ client, from, perSecond, timeoutMs }: Redrive): Promise<readonly Message[]> {
  const command = new ReceiveMessageCommand({
    QueueUrl: from,
    MaxNumberOfMessages: 10,
    // Also a standard queue then asks all of its servers, and an empty answer means empty.
    WaitTimeSeconds: 1,
    // Longer than ten messages take, or they would be given out again meanwhile.
    VisibilityTimeout: Math.min(43_200, Math.ceil(60 + 20 / perSecond)),
    MessageSystemAttributeNames: ['All'],
    MessageAttributeNames: ['All'],
  });
  const { Messages = [] } = await awsCall(timeoutMs + 1_000, (abortSignal) => client.send(command, { abortSignal }));
  return Messages;
}

/**
 * Sends what was received, and removes what was accepted. Of each group one message goes in a call: the queue answers entry by entry, and a
 * second one that is accepted after a refused first could never be put in order again.
 */
async function move(
  redrive: Redrive,
  messages: readonly Message[],
  sent: Set<string>,
  removed: Set<Message>,
): Promise<void> {
  for (const call of waves(messages, redrive.fifo).flatMap(fitting)) {
    let rest = call;
    for (let attempt = 1; rest.length > 0; attempt += 1) {
      const { accepted, refused } = await send(redrive, rest);
      for (const { messageId } of accepted) sent.add(messageId);
      await remove(
        redrive,
        accepted.map(({ message }) => message),
      );
      for (const { message } of accepted) removed.add(message);
      rest = refused.map(({ message }) => message);
      if (rest.length > 0 && attempt === TRIES) {
        throw new SealedOutboxError(
          'REDRIVE_REFUSED',
          `the queue refused a message ${TRIES} times (${refused[0]?.code}). ${removed.size} of this batch were sent; the rest stays in the dead-letter queue.`,
        );
      }
      if (rest.length > 0) await redrive.clock.sleep(RETRY_MS);
    }
  }
}

/** The first message of each group, then the second of each, and so on; a standard queue has no groups. */
function waves(messages: readonly Message[], fifo: boolean): Message[][] {
  if (!fifo) return [[...messages]];
  const result: Message[][] = [];
  const inGroup = new Map<string, number>();
  for (const message of messages) {
    const group = message.Attributes?.MessageGroupId ?? '';
    const place = inGroup.get(group) ?? 0;
    inGroup.set(group, place + 1);
    (result[place] ??= []).push(message);
  }
  return result;
}

/** As many messages a call as it takes: ten of the largest do not fit into one. */
function fitting(messages: readonly Message[]): Message[][] {
  const calls: Message[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const message of messages) {
    const size = sizeOf(message);
    if (bytes + size > CALL_BYTES) {
      calls.push([]);
      bytes = 0;
    }
    calls.at(-1)?.push(message);
    bytes += size;
  }
  return calls;
}

function sizeOf({ Body = '', MessageAttributes = {} }: Message): number {
  let bytes = Buffer.byteLength(Body);
  for (const [name, { DataType = '', StringValue = '', BinaryValue }] of Object.entries(MessageAttributes)) {
    bytes += Buffer.byteLength(name + DataType + StringValue) + (BinaryValue?.length ?? 0);
  }
  return bytes;
}

interface Sent {
  readonly accepted: readonly { readonly message: Message; readonly messageId: string }[];
  readonly refused: readonly { readonly message: Message; readonly code: string }[];
}

async function send({ client, to, timeoutMs, fifo }: Redrive, messages: readonly Message[]): Promise<Sent> {
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

async function remove({ client, from, timeoutMs }: Redrive, messages: readonly Message[]): Promise<void> {
  if (messages.length === 0) return;
  const Entries: DeleteMessageBatchRequestEntry[] = messages.map(({ ReceiptHandle }, index) => ({
    Id: String(index),
    ReceiptHandle,
  }));
  // One that could not be removed is met again, and sent with the same deduplication id.
  const command = new DeleteMessageBatchCommand({ QueueUrl: from, Entries });
  await awsCall(timeoutMs, (abortSignal) => client.send(command, { abortSignal }));
}

/** Messages that were received and stay: whoever looks next is not to find the queue empty. Where that fails they are visible again by themselves. */
async function giveBack({ client, from, timeoutMs }: Redrive, messages: readonly Message[]): Promise<void> {
  if (messages.length === 0) return;
  const Entries = messages.map(({ ReceiptHandle }, index) => ({
    Id: String(index),
    ReceiptHandle,
    VisibilityTimeout: 0,
  }));
  const command = new ChangeMessageVisibilityBatchCommand({ QueueUrl: from, Entries });
  await awsCall(timeoutMs, (abortSignal) => client.send(command, { abortSignal })).catch(() => {});
}
