import { Duration, Stack } from 'aws-cdk-lib';
import { Alarm, Metric } from 'aws-cdk-lib/aws-cloudwatch';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { describe, expect, it } from 'vitest';
import { FunctionAlarms, type Outbox, OutboxDashboard } from '../../infra/index.ts';
import { emptyApp, synthesise } from './synthesised.ts';

interface Widget {
  readonly type: string;
  readonly y: number;
  readonly properties: { readonly title?: string; readonly alarms?: unknown[]; readonly metrics?: unknown[][] };
}

/** The body with each reference written as its text, so that it is JSON. */
function widgetsOf(stage: 'dev' | 'prod' | 'local'): { name: string; widgets: Widget[] } {
  const { resources } = synthesise(stage);
  const [[, dashboard] = []] = resources('AWS::CloudWatch::Dashboard');
  const parts = dashboard?.Properties['DashboardBody']['Fn::Join'][1] as unknown[];
  const body = parts
    .map((part) => (typeof part === 'string' ? part : `<${JSON.stringify(part).replaceAll('"', "'")}>`))
    .join('');
  return { name: dashboard?.Properties['DashboardName'], widgets: JSON.parse(body).widgets };
}

describe.each(['dev', 'prod', 'local'] as const)('the dashboard of stage %s', (stage) => {
  const { resources } = synthesise(stage);
  const alarms = resources('AWS::CloudWatch::Alarm');
  const { name, widgets } = widgetsOf(stage);

  it('has the name of the installation', () => {
    expect(name).toBe(`sealed-outbox-${stage}-service`);
  });

  it('says first whether anything is stuck: the state of every alarm', () => {
    const [first] = widgets;
    expect(first).toMatchObject({ type: 'alarm', y: 0 });
    const shown = JSON.stringify(first?.properties.alarms);
    expect(first?.properties.alarms).toHaveLength(alarms.length);
    expect(alarms.map(([id]) => id).filter((id) => !shown.includes(id))).toEqual([]);
  });

  it('then where and since when: every metric that an alarm on events reads, now and over time', () => {
    const shown = (type: string): Set<string> =>
      new Set(
        widgets
          .filter((widget) => widget.type === 'metric' && JSON.stringify(widget).includes(`"view":"${type}"`))
          .flatMap(({ properties }) => properties.metrics ?? [])
          .map(([namespace, metric]) => `${String(namespace)} ${String(metric)}`),
      );
    const read = new Set(alarms.map(([, { Properties }]) => `${Properties['Namespace']} ${Properties['MetricName']}`));
    const anywhere = new Set([...shown('singleValue'), ...shown('timeSeries')]);
    // What stands in the alarms alone: it says by itself what to do, and no curve of it would say more.
    const alarmsOnly = ['CanaryFailed', 'CanaryAge', 'BranchKeyAge', 'RewrapLag', 'IndexRotationLag'];
    alarmsOnly.push('ErasuresRequested', 'ErasuresUnapplied');
    expect([...read].filter((metric) => !anywhere.has(metric)).toSorted()).toEqual(
      alarmsOnly.map((metric) => `SealedOutbox ${metric}`).toSorted(),
    );
    for (const metric of ['SealedOutbox OldestPendingAge', 'SealedOutbox Parked', 'SealedOutbox RelaySilence']) {
      expect(shown('singleValue')).toContain(metric);
      expect(shown('timeSeries')).toContain(metric);
    }
  });
});

describe('constructs that watch', () => {
  const stack = (): Stack => new Stack(emptyApp(), 'Mine');

  it('refuse more alarms than CloudWatch shows in one place', () => {
    const mine = stack();
    const alarms = Array.from(
      { length: 101 },
      (_, number) =>
        new Alarm(mine, `Alarm${number}`, {
          metric: new Metric({ namespace: 'Mine', metricName: 'Any' }),
          threshold: 0,
          evaluationPeriods: 1,
        }),
    );
    const props = { outbox: {} as Outbox, alarms, queues: {}, consumers: [], functions: {} };
    expect(() => new OutboxDashboard(mine, 'Dashboard', props)).toThrow(
      'Mine/Dashboard: 101 alarms, and CloudWatch shows 100 in one place. Leave some out.',
    );
  });

  it('measure a duration against the time-out, and refuse a function without one', () => {
    const mine = stack();
    const code = Code.fromInline('exports.handler = () => {}');
    const common = { runtime: Runtime.NODEJS_24_X, handler: 'index.handler', code };
    const topic = new Topic(mine, 'Topic');
    const bounded = new LambdaFunction(mine, 'Bounded', { ...common, timeout: Duration.seconds(10) });
    const { alarms } = new FunctionAlarms(mine, 'Alarms', {
      installation: 'mine',
      topic,
      functions: { bounded },
      durationPercent: 50,
    });
    expect(alarms).toHaveLength(3);
    const functions = { endless: new LambdaFunction(mine, 'Endless', common) };
    expect(() => new FunctionAlarms(mine, 'More', { installation: 'mine', topic, functions })).toThrow(
      'the function endless has no time-out',
    );
  });
});
