import { CloudWatchClient, PutMetricDataCommand } from '@aws-sdk/client-cloudwatch';
import {
  CloudWatchLogsClient,
  DescribeLogGroupsCommand,
  FilterLogEventsCommand,
} from '@aws-sdk/client-cloudwatch-logs';
import { GetQueueAttributesCommand, ListQueuesCommand, SQSClient } from '@aws-sdk/client-sqs';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { createForwarder } from '../../../local/cloudwatch/forwarder.ts';

const logs = mockClient(CloudWatchLogsClient);
const metrics = mockClient(CloudWatchClient);
const queues = mockClient(SQSClient);
// Other files share the classes of the SDK.
afterAll(() => {
  for (const mock of [logs, metrics, queues]) mock.restore();
});
let now = 1_000_000;
const forwarder = () =>
  createForwarder(
    { logs: new CloudWatchLogsClient(), metrics: new CloudWatchClient(), queues: new SQSClient() },
    () => now,
  );

const line = (value: number, logStreamName = 's') => ({
  logStreamName,
  timestamp: now,
  message: JSON.stringify({
    _aws: { Timestamp: now, CloudWatchMetrics: [{ Namespace: 'N', Dimensions: [[]], Metrics: [{ Name: 'M' }] }] },
    M: value,
  }),
});

beforeEach(() => {
  for (const mock of [logs, metrics, queues]) mock.reset();
  now = 1_000_000;
  logs.on(DescribeLogGroupsCommand).resolves({ logGroups: [{ logGroupName: 'g' }] });
  logs.on(FilterLogEventsCommand).resolves({ events: [] });
  queues.on(ListQueuesCommand).resolves({ QueueUrls: [] });
  metrics.on(PutMetricDataCommand).resolves({});
});

describe('createForwarder', () => {
  it('takes every line over once, although it looks back, equal lines included', async () => {
    const forward = forwarder();
    logs.on(FilterLogEventsCommand).resolves({ events: [line(1), line(1)] });
    expect(await forward.forward()).toHaveLength(2);
    logs.on(FilterLogEventsCommand).resolves({ events: [line(1), line(1), line(1), line(1, 'other')] });
    expect(await forward.forward()).toHaveLength(2);
    expect(await forward.forward()).toHaveLength(0);
  });

  it.each([
    ['the queues cannot be asked', () => queues.on(ListQueuesCommand).rejectsOnce('away').resolves({ QueueUrls: [] })],
    ['the metrics cannot be put', () => metrics.on(PutMetricDataCommand).rejectsOnce('away').resolves({})],
  ])('takes a line over in the next round where %s', async (_, fails) => {
    const forward = forwarder();
    logs.on(FilterLogEventsCommand).resolves({ events: [line(1)] });
    fails();
    await expect(forward.forward()).rejects.toThrow('away');
    expect(await forward.forward()).toHaveLength(1);
    expect(await forward.forward()).toHaveLength(0);
  });

  it('looks back a minute, but never before it began', async () => {
    const forward = forwarder();
    await forward.forward();
    now += 30_000;
    await forward.forward();
    now += 60_000;
    await forward.forward();
    const since = logs.commandCalls(FilterLogEventsCommand).map(({ args: [{ input }] }) => input.startTime);
    expect(since).toEqual([1_000_000, 1_000_000, 1_030_000]);
  });

  it('puts them as metrics with their dimensions, one call for a namespace', async () => {
    logs.on(FilterLogEventsCommand).resolves({ events: [line(1), line(2)] });
    await forwarder().forward();
    const calls = metrics.commandCalls(PutMetricDataCommand).map(({ args: [{ input }] }) => input);
    expect(calls).toEqual([
      {
        Namespace: 'N',
        MetricData: [1, 2].map((Value) => ({
          MetricName: 'M',
          Dimensions: [],
          Value,
          Unit: 'None',
          Timestamp: new Date(now),
        })),
      },
    ]);
  });

  it('reports what waits in each queue under SQS’s own names', async () => {
    queues.on(ListQueuesCommand).resolves({ QueueUrls: ['http://localhost/0/q.fifo'] });
    queues.on(GetQueueAttributesCommand).resolves({ Attributes: { ApproximateNumberOfMessages: '3' } });
    expect(await forwarder().forward()).toEqual([
      {
        namespace: 'AWS/SQS',
        name: 'ApproximateNumberOfMessagesVisible',
        dimensions: { QueueName: 'q.fifo' },
        value: 3,
        unit: 'Count',
        at: now,
      },
    ]);
  });
});
