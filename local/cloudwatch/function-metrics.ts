import { type CloudWatchClient, GetMetricDataCommand, paginateListMetrics } from '@aws-sdk/client-cloudwatch';
import type { Sample } from './samples.ts';

/** How each is added up within a second, and its unit. */
const METRICS = {
  Errors: ['Sum', 'Count'],
  Throttles: ['Sum', 'Count'],
  Duration: ['Maximum', 'Milliseconds'],
} as const;

const NAMESPACE = 'AWS/Lambda';
const SECOND = 1_000;

/**
 * What the emulator itself measures of functions, second by second, each second once. It counts throttles of every invocation; errors and durations only of those that
 * somebody invokes directly and waits for, not of queues', schedules' and the gateway's.
 *
 * @param now milliseconds since 1970
 */
export function createFunctionMetrics(client: CloudWatchClient, now: () => number): { read(): Promise<Sample[]> } {
  const second = (): number => Math.floor(now() / SECOND) * SECOND;
  let from = second();
  return {
    async read() {
      // The second that runs is not over.
      const until = second();
      if (until <= from) return [];
      const metrics: { readonly name: keyof typeof METRICS; readonly fn: string }[] = [];
      for await (const { Metrics = [] } of paginateListMetrics({ client }, { Namespace: NAMESPACE })) {
        for (const { MetricName: name = '', Dimensions = [] } of Metrics) {
          const fn = Dimensions.find(({ Name }) => Name === 'FunctionName')?.Value;
          if (isKnown(name) && fn !== undefined) metrics.push({ name, fn });
        }
      }
      if (metrics.length === 0) return [];
      const { MetricDataResults = [] } = await client.send(
        new GetMetricDataCommand({
          StartTime: new Date(from),
          EndTime: new Date(until),
          MetricDataQueries: metrics.map(({ name, fn }, index) => ({
            Id: `m${index}`,
            MetricStat: {
              Metric: { Namespace: NAMESPACE, MetricName: name, Dimensions: [{ Name: 'FunctionName', Value: fn }] },
              Period: 1,
              Stat: METRICS[name][0],
            },
          })),
        }),
      );
      from = until;
      return MetricDataResults.flatMap(({ Id = '', Timestamps = [], Values = [] }) => {
        const metric = metrics[Number(Id.slice(1))];
        if (metric === undefined) return [];
        const { name, fn } = metric;
        return Timestamps.map((at, index) => ({
          namespace: NAMESPACE,
          name,
          dimensions: { FunctionName: fn },
          value: Values[index] ?? 0,
          unit: METRICS[name][1],
          at: at.getTime(),
        }));
      });
    },
  };
}

const isKnown = (name: string): name is keyof typeof METRICS => Object.hasOwn(METRICS, name);
