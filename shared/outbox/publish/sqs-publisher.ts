import type { SendMessageBatchRequestEntry, SQSClient } from '@aws-sdk/client-sqs';
import { xrayTraceHeader } from '../../telemetry/index.ts';
import { awsCall } from './aws-call.ts';
import { PublishError } from './publish-error.ts';
import type { Message, Publisher, PublishResult } from './publisher.ts';
import { sqsCalls } from './sqs-send.ts';

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
  const calls = sqsCalls(client, queueUrl);
  return {
    limits: { entries: 10, bytes: 1_048_576, timeoutMs },

    async preflight() {
      const isFifo = await awsCall(timeoutMs, (abortSignal) => calls.isFifo(abortSignal));
      if (isFifo !== fifo) {
        throw new PublishError(
          'QueueKindMismatch',
          `The queue is ${isFifo ? 'a FIFO queue' : 'a standard queue'}, the catalogue says ${fifo ? 'sqs-fifo' : 'sqs'}. Nothing was sent. Change one of them.`,
        );
      }
    },

    async publish(messages) {
      const { Successful = [], Failed = [] } = await awsCall(timeoutMs, (abortSignal) =>
        calls.send(
          messages.map((message, index) => entryOf(message, index, fifo)),
          abortSignal,
        ),
      );
      const results = new Map<string, PublishResult>();
      for (const entry of Successful) {
        results.set(entry.Id ?? '', { ok: true, messageId: entry.MessageId ?? '' });
      }
      for (const entry of Failed) {
        results.set(entry.Id ?? '', { ok: false, code: entry.Code ?? 'Unknown', reason: entry.Message ?? '' });
      }
      return messages.map((_, index) => results.get(String(index)) ?? NO_ANSWER);
    },

    close() {
      client.destroy();
    },
  };
}

const NO_ANSWER: PublishResult = {
  ok: false,
  code: 'NoAnswer',
  reason: 'the answer does not mention this message',
};

function entryOf(message: Message, index: number, fifo: boolean): SendMessageBatchRequestEntry {
  const traceHeader = message.traceparent === undefined ? undefined : xrayTraceHeader(message.traceparent);
  return {
    Id: String(index),
    MessageBody: message.body,
    // A system attribute: it does not count against the limits of a message.
    ...(traceHeader !== undefined && {
      MessageSystemAttributes: { AWSTraceHeader: { DataType: 'String', StringValue: traceHeader } },
    }),
    ...(fifo && { MessageGroupId: message.groupId, MessageDeduplicationId: message.deduplicationId }),
  };
}
