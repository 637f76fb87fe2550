import { setTimeout as delay } from 'node:timers/promises';
import { CloudWatchClient } from '@aws-sdk/client-cloudwatch';
import { CloudWatchLogsClient } from '@aws-sdk/client-cloudwatch-logs';
import { SQSClient } from '@aws-sdk/client-sqs';
import { type AlarmChange, judgeAlarms } from './alarms.ts';
import { createForwarder } from './forwarder.ts';
import { createFunctionMetrics } from './function-metrics.ts';
import { readQueueAges } from './queue-ages.ts';
import { createSampleStore } from './samples.ts';

export interface Watch {
  stop(): Promise<void>;
}

export interface WatchOptions {
  readonly client: { endpoint: string; region: string; credentials: { accessKeyId: string; secretAccessKey: string } };
  /** See {@link judgeAlarms}. Default: 1. */
  readonly speed?: number;
  readonly onChange: (change: AlarmChange) => void;
  readonly onError: (error: Error) => void;
}

const EVERY_MS = 2_000;

/** Plays the part of CloudWatch that the emulator lacks, until stopped: metrics from logs, queues and functions, then the alarms. */
export function watchMetrics({ client, speed = 1, onChange, onError }: WatchOptions): Watch {
  const now = Date.now;
  const since = now();
  const metrics = new CloudWatchClient(client);
  const clients = {
    metrics,
    logs: new CloudWatchLogsClient(client),
    queues: new SQSClient({ ...client, useQueueUrlAsEndpoint: false }),
  };
  const store = createSampleStore(now);
  const forwarder = createForwarder(clients, now);
  const functions = createFunctionMetrics(metrics, now);
  const stopping = new AbortController();
  const loop = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      try {
        const read = [forwarder.forward(), functions.read(), readQueueAges(client.endpoint, now)];
        store.add((await Promise.all(read)).flat());
        for (const change of await judgeAlarms({ metrics, store, now, since, speed })) onChange(change);
      } catch (error) {
        if (!stopping.signal.aborted) onError(error as Error);
      }
      await delay(EVERY_MS / speed, undefined, { signal: stopping.signal }).catch(() => {});
    }
  };
  const running = loop();
  return {
    async stop() {
      stopping.abort();
      await running;
      for (const one of Object.values(clients)) one.destroy();
    },
  };
}
