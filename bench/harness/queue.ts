import { SQSClient } from '@aws-sdk/client-sqs';
import { type Child, startChild } from './process.ts';

export interface QueueStart {
  readonly delayMs: number;
}

export interface QueueCounts {
  calls: number;
  accepted: number;
  /** Messages whose deduplication id came before. */
  repeats: number;
  /** First occurrences with a lower sequence than one of their group that came before. */
  orderBreaks: number;
  /** Milliseconds since 1970: first call received, last call answered. */
  firstAt: number;
  lastAt: number;
}

/** Deduplication id, group, and when the call that brought it was received (milliseconds since 1970). */
export type Arrival = readonly [id: string, group: string, at: number];

/** Where the queue is; plain data. */
export interface QueueAddress {
  readonly endpoint: string;
  readonly queueUrl: string;
}

export interface BenchQueue extends QueueAddress {
  readonly process: Child;
  reset(keepArrivals?: boolean): Promise<void>;
  counts(): Promise<QueueCounts>;
  arrivals(): Promise<Arrival[]>;
  stop(): Promise<void>;
}

/** The loopback queue, in a process of its own. */
export async function startQueue(delayMs = 8): Promise<BenchQueue> {
  const child = startChild('loopback-sqs.ts');
  const port = await child.ask<number>('start', { delayMs } satisfies QueueStart);
  return {
    endpoint: `http://127.0.0.1:${port}`,
    queueUrl: `http://127.0.0.1:${port}/000000000000/queue.fifo`,
    process: child,
    reset: (keepArrivals = false) => child.ask('reset', { keepArrivals }),
    counts: () => child.ask('counts'),
    arrivals: () => child.ask('arrivals'),
    stop: () => child.stop(),
  };
}

/** The SDK's client, as the relay's function makes it. */
export function sqsClient({ endpoint }: QueueAddress): SQSClient {
  return new SQSClient({
    endpoint,
    region: 'eu-central-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    useQueueUrlAsEndpoint: false,
    maxAttempts: 1,
  });
}
