import type { CloudWatchClient } from '@aws-sdk/client-cloudwatch';
import { PutMetricDataCommand, type StandardUnit } from '@aws-sdk/client-cloudwatch';
import type { CloudWatchLogsClient, FilteredLogEvent } from '@aws-sdk/client-cloudwatch-logs';
import { paginateDescribeLogGroups, paginateFilterLogEvents } from '@aws-sdk/client-cloudwatch-logs';
import type { SQSClient } from '@aws-sdk/client-sqs';
import { GetQueueAttributesCommand, paginateListQueues } from '@aws-sdk/client-sqs';
import { samplesOfLine } from './emf.ts';
import type { Sample } from './samples.ts';

export interface Forwarder {
  /** Brings over what is new since the last call; resolves with it. */
  forward(): Promise<Sample[]>;
}

export interface ForwarderClients {
  readonly logs: CloudWatchLogsClient;
  readonly metrics: CloudWatchClient;
  readonly queues: SQSClient;
}

/** A line can become visible after one with a later time (functions run side by side): so far back we look again. */
const OVERLAP_MS = 60_000;
/** CloudWatch's limit of one PutMetricData. */
const MOST_PER_CALL = 1_000;

/**
 * What AWS does by itself and the emulator does not: makes metrics of the functions' log lines, and reports how many
 * messages wait in each queue.
 *
 * @param now milliseconds since 1970
 */
export function createForwarder({ logs, metrics, queues }: ForwarderClients, now: () => number): Forwarder {
  const began = now();
  /** Lines that were taken over, with their time, as far back as we look again. */
  let seen = new Map<string, number>();

  const freshLines = async (): Promise<Line[]> => {
    const since = Math.max(began, now() - OVERLAP_MS);
    const groups = await collect(paginateDescribeLogGroups({ client: logs }, {}), (page) => page.logGroups);
    const perGroup = await Promise.all(
      groups.map(({ logGroupName }) =>
        collect(
          paginateFilterLogEvents(
            { client: logs },
            { logGroupName, startTime: since, filterPattern: '"CloudWatchMetrics"' },
          ),
          (page) => page.events,
        ),
      ),
    );
    seen = new Map([...seen].filter(([, at]) => at >= since));
    return perGroup.flatMap(withIdentity).filter(({ identity }) => !seen.has(identity));
  };

  const fromQueues = async (): Promise<Sample[]> => {
    const urls = await collect(paginateListQueues({ client: queues }, {}), (page) => page.QueueUrls);
    return (await Promise.all(urls.map((url) => queueSamples(queues, url, now)))).flat();
  };

  return {
    async forward() {
      const [fresh, ofQueues] = await Promise.all([freshLines(), fromQueues()]);
      const ofLines = fresh.flatMap(({ message, timestamp }) => samplesOfLine(message ?? '', timestamp ?? now()) ?? []);
      const samples = [...ofLines, ...ofQueues];
      await putMetrics(metrics, samples);
      // Not before: what was counted once only would be lost where a call failed.
      for (const { identity, timestamp } of fresh) seen.set(identity, timestamp ?? now());
      return samples;
    },
  };
}

type Line = FilteredLogEvent & { readonly identity: string };

/** The emulator's lines of functions have no id. Where two in a stream are the same to the letter, their order tells them apart. */
function withIdentity(lines: readonly FilteredLogEvent[]): Line[] {
  const equal = new Map<string, number>();
  return lines.map((line) => {
    const text = JSON.stringify([line.logStreamName, line.timestamp, line.message]);
    const count = (equal.get(text) ?? 0) + 1;
    equal.set(text, count);
    return { ...line, identity: `${count} ${text}` };
  });
}

/** SQS's own metrics, by the attributes that they come from. */
const QUEUE_METRICS = {
  ApproximateNumberOfMessages: 'ApproximateNumberOfMessagesVisible',
  ApproximateNumberOfMessagesNotVisible: 'ApproximateNumberOfMessagesNotVisible',
  ApproximateNumberOfMessagesDelayed: 'ApproximateNumberOfMessagesDelayed',
} as const;

async function queueSamples(queues: SQSClient, url: string, now: () => number): Promise<Sample[]> {
  const names = Object.keys(QUEUE_METRICS) as (keyof typeof QUEUE_METRICS)[];
  const { Attributes } = await queues.send(new GetQueueAttributesCommand({ QueueUrl: url, AttributeNames: names }));
  const dimensions = { QueueName: url.slice(url.lastIndexOf('/') + 1) };
  return names.flatMap((name) => {
    const value = Number(Attributes?.[name]);
    return Number.isNaN(value)
      ? []
      : [{ namespace: 'AWS/SQS', name: QUEUE_METRICS[name], dimensions, value, unit: 'Count', at: now() }];
  });
}

async function putMetrics(metrics: CloudWatchClient, samples: readonly Sample[]): Promise<void> {
  for (const [Namespace, ofNamespace] of Map.groupBy(samples, ({ namespace }) => namespace)) {
    for (let from = 0; from < ofNamespace.length; from += MOST_PER_CALL) {
      const MetricData = ofNamespace.slice(from, from + MOST_PER_CALL).map(({ name, dimensions, value, unit, at }) => ({
        MetricName: name,
        Dimensions: Object.entries(dimensions).map(([Name, Value]) => ({ Name, Value })),
        Value: value,
        Unit: unit as StandardUnit,
        Timestamp: new Date(at),
      }));
      await metrics.send(new PutMetricDataCommand({ Namespace, MetricData }));
    }
  }
}

async function collect<Page, Item>(
  pages: AsyncIterable<Page>,
  items: (page: Page) => Item[] | undefined,
): Promise<Item[]> {
  const all: Item[] = [];
  for await (const page of pages) all.push(...(items(page) ?? []));
  return all;
}
