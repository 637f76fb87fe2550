import { CloudWatchClient, GetMetricDataCommand, ListMetricsCommand } from '@aws-sdk/client-cloudwatch';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { createFunctionMetrics } from '../../../local/cloudwatch/function-metrics.ts';
import { queueAges } from '../../../local/cloudwatch/queue-ages.ts';

const metrics = mockClient(CloudWatchClient);
// Other files share the classes of the SDK.
afterAll(() => metrics.restore());
const named = (MetricName: string, FunctionName: string) => ({
  Namespace: 'AWS/Lambda',
  MetricName,
  Dimensions: [{ Name: 'FunctionName', Value: FunctionName }],
});

beforeEach(() => {
  metrics.reset();
  metrics.on(ListMetricsCommand).resolves({ Metrics: [named('Invocations', 'f'), named('Errors', 'f')] });
  metrics.on(GetMetricDataCommand).resolves({
    MetricDataResults: [{ Id: 'm0', Timestamps: [new Date(11_000), new Date(12_000)], Values: [2, 1] }],
  });
});

describe('createFunctionMetrics', () => {
  it('takes over what the emulator counts of a function, second by second', async () => {
    let now = 10_400;
    const source = createFunctionMetrics(new CloudWatchClient(), () => now);
    now = 13_900;
    const sample = { namespace: 'AWS/Lambda', name: 'Errors', dimensions: { FunctionName: 'f' }, unit: 'Count' };
    expect(await source.read()).toEqual([
      { ...sample, value: 2, at: 11_000 },
      { ...sample, value: 1, at: 12_000 },
    ]);
  });

  it('asks for each second once, and never for the one that runs', async () => {
    let now = 10_400;
    const source = createFunctionMetrics(new CloudWatchClient(), () => now);
    expect(await source.read()).toEqual([]);
    for (now of [11_500, 11_900, 14_000]) await source.read();
    const asked = metrics
      .commandCalls(GetMetricDataCommand)
      .map(({ args: [{ input }] }) => [input.StartTime?.getTime(), input.EndTime?.getTime()]);
    expect(asked).toEqual([
      [10_000, 11_000],
      [11_000, 14_000],
    ]);
  });
});

describe('the age of the oldest message', () => {
  it('is counted from when it was sent, whether or not somebody has received it; 0 where there is none', () => {
    const sent = (at: number) => ({ Attributes: { SentTimestamp: String(at) } });
    const queues = { 'http://localhost/0/full.fifo': [sent(9_000), sent(4_500)], 'http://localhost/0/empty': [] };
    const sample = { namespace: 'AWS/SQS', name: 'ApproximateAgeOfOldestMessage', unit: 'Seconds', at: 10_000 };
    expect(queueAges({ messages: { '0': { here: queues } } }, 10_000)).toEqual([
      { ...sample, dimensions: { QueueName: 'full.fifo' }, value: 5.5 },
      { ...sample, dimensions: { QueueName: 'empty' }, value: 0 },
    ]);
  });
});
