import {
  CloudWatchClient,
  DescribeAlarmsCommand,
  type MetricAlarm,
  SetAlarmStateCommand,
} from '@aws-sdk/client-cloudwatch';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { judgeAlarms, ruleOf } from '../../../local/cloudwatch/alarms.ts';
import { createSampleStore, type Sample } from '../../../local/cloudwatch/samples.ts';

const metrics = mockClient(CloudWatchClient);
// Other files share the classes of the SDK.
afterAll(() => metrics.restore());
const NOON = Date.UTC(2026, 0, 1, 12);
const ALARM: MetricAlarm = {
  AlarmName: 'lag',
  Namespace: 'N',
  MetricName: 'Age',
  Dimensions: [{ Name: 'Destination', Value: 'ledger' }],
  Period: 60,
  Statistic: 'Maximum',
  ComparisonOperator: 'GreaterThanThreshold',
  Threshold: 10,
  EvaluationPeriods: 2,
  StateValue: 'OK',
  TreatMissingData: 'breaching',
};

const sample = (at: number, value: number, dimensions: Record<string, string> = { Destination: 'ledger' }): Sample => ({
  namespace: 'N',
  name: 'Age',
  dimensions,
  unit: 'Seconds',
  value,
  at,
});

async function judge(samples: readonly Sample[], options: { since?: number; now?: number; speed?: number } = {}) {
  const { since = 0, now = NOON + 2_000, speed = 1 } = options;
  const store = createSampleStore(() => now);
  store.add(samples);
  return judgeAlarms({ metrics: new CloudWatchClient(), store, now: () => now, since, speed });
}

beforeEach(() => {
  metrics.reset();
  metrics.on(DescribeAlarmsCommand).resolves({ MetricAlarms: [ALARM] });
  metrics.on(SetAlarmStateCommand).resolves({});
});

describe('judgeAlarms', () => {
  const late = [sample(NOON - 70_000, 11), sample(NOON - 10_000, 11)];
  const fine = [sample(NOON - 70_000, 1), sample(NOON - 10_000, 1)];

  it('sets a state that changed, once', async () => {
    expect(await judge(late)).toMatchObject([{ name: 'lag', from: 'OK', to: 'ALARM' }]);
    const [call, ...more] = metrics.commandCalls(SetAlarmStateCommand);
    expect(call?.args[0].input).toMatchObject({ AlarmName: 'lag', StateValue: 'ALARM' });
    expect(more).toEqual([]);
  });

  it('leaves a state that did not change', async () => {
    expect(await judge(fine)).toEqual([]);
    expect(metrics.commandCalls(SetAlarmStateCommand)).toEqual([]);
  });

  it('does not mistake a metric with other dimensions for its own', async () => {
    expect(await judge([...fine, ...late.map(({ at }) => sample(at, 99, { Destination: 'other' }))])).toEqual([]);
  });

  it('takes silence for a breach only once all its periods lie in our time', async () => {
    expect(await judge([], { since: NOON - 119_000 })).toEqual([]);
    expect(await judge([], { since: NOON - 120_000 })).toHaveLength(1);
  });

  it('waits a moment for the last samples of a period', async () => {
    const samples = [sample(NOON - 170_000, 1), sample(NOON - 70_000, 1), sample(NOON - 130_000, 1)];
    expect(await judge(samples, { now: NOON + 1_999 })).toEqual([]);
  });

  it('shortens the periods for tests', async () => {
    const samples = [sample(NOON - 7_000, 11), sample(NOON - 1_000, 11)];
    expect(await judge(samples, { now: NOON + 200, speed: 10 })).toHaveLength(1);
  });

  it('leaves alarms that it does not understand alone', async () => {
    const { Statistic: _, ...percentile } = ALARM;
    metrics.on(DescribeAlarmsCommand).resolves({ MetricAlarms: [{ ...percentile, ExtendedStatistic: 'p99' }] });
    expect(await judge(late)).toEqual([]);
  });
});

describe('ruleOf', () => {
  it('takes CloudWatch’s defaults for what is not said', () => {
    const { TreatMissingData: _, ...alarm } = ALARM;
    expect(ruleOf(alarm)).toMatchObject({ datapointsToAlarm: 2, missingData: 'missing', periodSeconds: 60 });
  });
});
