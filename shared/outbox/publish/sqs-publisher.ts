import {
  GetQueueAttributesCommand,
  SendMessageBatchCommand,
  type SendMessageBatchRequestEntry,
  type SQSClient,
} from '@aws-sdk/client-sqs';
import { failureClass } from '../relay/failure-class.ts';
import { PublishError } from './publish-error.ts';
import type { Message, Publisher, PublishResult } from './publisher.ts';

export interface SqsPublisherOptions {
  readonly client: SQSClient;
  readonly queueUrl: string;
  /** FIFO queues get group and deduplication ids. */
  readonly fifo: boolean;
  /** Milliseconds; default 5000. */
  readonly timeoutMs?: number;
}

/** SQS: at most 10 messages and 1,048,576 bytes a call, one result per message, HTTP 200 even when some were refused. */
export function sqsPublisher({ client, queueUrl, fifo, timeoutMs = 5000 }: SqsPublisherOptions): Publisher {
  return {
    limits: { entries: 10, bytes: 1_048_576, timeoutMs },

    async preflight() {
      try {
        const { Attributes } = await client.send(
          new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['FifoQueue'] }),
          { abortSignal: AbortSignal.timeout(timeoutMs) },
        );
        const isFifo = Attributes?.['FifoQueue'] === 'true';
        if (isFifo !== fifo) {
          throw new PublishError(
            'QueueKindMismatch',
            `The queue is ${isFifo ? 'a FIFO queue' : 'a standard queue'}, the catalogue says ${fifo ? 'sqs-fifo' : 'sqs'}. Nothing was sent. Change one of them.`,
          );
        }
      } catch (error) {
        throw asPublishError(error);
      }
    },

    async publish(messages) {
      try {
        const { Successful = [], Failed = [] } = await client.send(
          new SendMessageBatchCommand({
            QueueUrl: queueUrl,
            Entries: messages.map((message, index) => entryOf(message, index, fifo)),
          }),
          { abortSignal: AbortSignal.timeout(timeoutMs) },
        );
        const results = new Map<string, PublishResult>();
        for (const entry of Successful) {
          results.set(entry.Id ?? '', { ok: true, messageId: entry.MessageId ?? '' });
        }
        for (const entry of Failed) {
          results.set(entry.Id ?? '', { ok: false, code: entry.Code ?? 'Unknown', reason: entry.Message ?? '' });
        }
        return messages.map(
          (_, index) =>
            results.get(String(index)) ?? {
              ok: false,
              code: 'NoAnswer',
              reason: 'the answer does not mention this message',
            },
        );
      } catch (error) {
        throw asPublishError(error);
      }
    },

    close() {
      client.destroy();
    },
  };
}

function entryOf(message: Message, index: number, fifo: boolean): SendMessageBatchRequestEntry {
  return {
    Id: String(index),
    MessageBody: message.body,
    ...(fifo && { MessageGroupId: message.groupId, MessageDeduplicationId: message.deduplicationId }),
  };
}

/** What the SDK calls an error whose answer it could not read; it says nothing of what happened. */
const NAMELESS = new Set(['Unknown', 'UnknownError', 'Error', 'SyntaxError', 'TypeError', 'SQSServiceException']);

/**
 * The SDK names service errors in `name`, network errors in `code`. An answer of 429 or 5xx with a name that nobody knows,
 * such as the HTML page of a proxy, is called by its status: then it counts as an outage, and no message is charged for it.
 */
function asPublishError(error: unknown): PublishError {
  if (error instanceof PublishError) return error;
  const { name, code, message, $metadata } = error as {
    name?: string;
    code?: unknown;
    message?: string;
    $metadata?: { httpStatusCode?: number };
  };
  // A DOMException's code is a number and says less than its name.
  const called = typeof code === 'string' ? code : (name ?? 'Unknown');
  const status = $metadata?.httpStatusCode;
  const byStatus = `Http${status}`;
  const nameless = NAMELESS.has(called) || /^\d*$/.test(called);
  if (
    status !== undefined &&
    (nameless || (failureClass(called) === 'unknown' && failureClass(byStatus) === 'outage'))
  ) {
    return new PublishError(byStatus, nameless ? `HTTP ${status} without an error code` : called, { cause: error });
  }
  return new PublishError(called, message ?? 'the call failed', { cause: error });
}
