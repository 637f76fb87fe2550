/** What the SDK, or the relay's own call on it, can do alone: batches of ten, 32 calls in flight, messages made beforehand, no database. */
import { randomUUID } from 'node:crypto';
import { SendMessageBatchCommand, type SendMessageBatchRequestEntry } from '@aws-sdk/client-sqs';
import { buildEnvelope } from '../shared/events/index.ts';
import { sqsCalls } from '../shared/outbox/publish/sqs-send.ts';
import { answerQuestions, now } from './harness/process.ts';
import { type QueueAddress, sqsClient } from './harness/queue.ts';

export interface BareLoopStart {
  readonly queue: QueueAddress;
  readonly events: number;
  readonly aggregates: number;
  readonly bytes: number;
  readonly callsInFlight: number;
  /** The relay's own call instead of the SDK's. */
  readonly lean: boolean;
}

function entries({ aggregates, bytes }: BareLoopStart): SendMessageBatchRequestEntry[] {
  const data = JSON.stringify({ text: 'x'.repeat(bytes) });
  return Array.from({ length: aggregates }, (_, n) => {
    const aggregateId = `thing-${String(n).padStart(6, '0')}`;
    const id = randomUUID();
    return {
      Id: String(n % 10),
      MessageBody: buildEnvelope({
        id,
        source: '/bench',
        type: 'thing.happened',
        schemaVersion: 1,
        aggregateType: 'thing',
        aggregateId,
        sequence: '1',
        occurredAt: '2026-01-01T00:00:00.000000Z',
        data,
        metadata: null,
      }),
      MessageGroupId: aggregateId,
      MessageDeduplicationId: id,
    };
  });
}

answerQuestions({
  async run(start: BareLoopStart): Promise<{ seconds: number; cpuSeconds: number }> {
    const client = sqsClient(start.queue);
    const pool = entries(start);
    const { queueUrl: QueueUrl } = start.queue;
    const lean = sqsCalls(client, QueueUrl);
    const { signal } = new AbortController();
    const send = (batch: SendMessageBatchRequestEntry[]): Promise<unknown> =>
      start.lean ? lean.send(batch, signal) : client.send(new SendMessageBatchCommand({ QueueUrl, Entries: batch }));
    let sent = 0;
    const startedAt = now();
    const cpu = process.cpuUsage();
    const lane = async (): Promise<void> => {
      while (sent < start.events) {
        const from = sent % pool.length;
        sent += 10;
        await send(pool.slice(from, from + 10));
      }
    };
    await Promise.all(Array.from({ length: start.callsInFlight }, lane));
    const { user, system } = process.cpuUsage(cpu);
    client.destroy();
    return { seconds: (now() - startedAt) / 1000, cpuSeconds: (user + system) / 1e6 };
  },
});
