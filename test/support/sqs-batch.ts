import { randomUUID } from 'node:crypto';
import type { Context, SQSBatchResponse, SQSEvent, SQSRecord } from 'aws-lambda';

/** A record as Lambda gets it from a FIFO queue. */
export function fifoRecord(group: string, body: string, messageId: string = randomUUID()): SQSRecord {
  return record('ledger.fifo', body, messageId, { MessageGroupId: group });
}

/** A record of a standard queue, with a group where the sender uses fair sharing. */
export function standardRecord(body: string, group?: string, messageId: string = randomUUID()): SQSRecord {
  return record('analytics', body, messageId, group === undefined ? {} : { MessageGroupId: group });
}

function record(queue: string, body: string, messageId: string, attributes: object): SQSRecord {
  return {
    messageId,
    receiptHandle: `receipt of ${messageId}`,
    body,
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: '0',
      SenderId: 'sender',
      ApproximateFirstReceiveTimestamp: '0',
      ...attributes,
    },
    messageAttributes: {},
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: `arn:aws:sqs:eu-central-1:000000000000:${queue}`,
    awsRegion: 'eu-central-1',
  };
}

/** Lambda's context, of which only the time counts. */
export function contextWith(remainingMs: () => number): Context {
  return { awsRequestId: 'request', getRemainingTimeInMillis: remainingMs } as Context;
}

/** A context whose time runs from now on, by the wall clock. */
export function contextFor(milliseconds: number): Context {
  const end = Date.now() + milliseconds;
  return contextWith(() => end - Date.now());
}

/** Has a consumer go on with what it holds, as a schedule does. */
export async function drainOf(handler: unknown, context: Context = contextFor(30_000)): Promise<void> {
  await (handler as (event: object, context: Context) => Promise<SQSBatchResponse>)({ action: 'drain-held' }, context);
}

type BatchHandler = (event: SQSEvent, context: Context) => Promise<SQSBatchResponse>;

/** Invokes a consumer with a batch; gives the ids that it returned to the queue. */
export async function invoke(
  handler: unknown,
  records: readonly SQSRecord[],
  context: Context = contextFor(30_000),
): Promise<string[]> {
  const { batchItemFailures } = await (handler as BatchHandler)({ Records: [...records] }, context);
  return batchItemFailures.map(({ itemIdentifier }) => itemIdentifier);
}
