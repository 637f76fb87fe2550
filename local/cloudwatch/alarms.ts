import {
  type CloudWatchClient,
  type MetricAlarm,
  paginateDescribeAlarms,
  SetAlarmStateCommand,
} from '@aws-sdk/client-cloudwatch';
import { type AlarmRule, type AlarmState, evaluateAlarm } from './alarm.ts';
import type { SampleStore } from './samples.ts';

export interface AlarmChange {
  readonly name: string;
  readonly from: AlarmState;
  readonly to: AlarmState;
  readonly reason: string;
}

export interface AlarmsOptions {
  readonly metrics: CloudWatchClient;
  readonly store: SampleStore;
  /** Milliseconds since 1970. */
  readonly now: () => number;
  /** Since when samples are kept. Milliseconds since 1970. */
  readonly since: number;
  /** Periods are this many times shorter than the alarm says. For tests, which then need samples as much more often. */
  readonly speed?: number;
}

/**
 * A log line reaches us a moment after its time: a period is judged when it has been over for this long. (CloudWatch
 * waits as well, and longer.)
 */
const SETTLE_MS = 2_000;

/**
 * Judges every deployed alarm once, as soon as the periods it looks at lie in our time: before that, all its data would be
 * missing only because nobody was here to see it.
 *
 * A change is set in the local AWS, which then sends the alarm's SNS message.
 */
export async function judgeAlarms({ metrics, store, now, since, speed = 1 }: AlarmsOptions): Promise<AlarmChange[]> {
  const changes: AlarmChange[] = [];
  for await (const { MetricAlarms = [] } of paginateDescribeAlarms(
    { client: metrics },
    { AlarmTypes: ['MetricAlarm'] },
  )) {
    for (const alarm of MetricAlarms) {
      const change = judge(alarm, store, now() - SETTLE_MS / speed, since, speed);
      if (change === undefined) continue;
      const { name: AlarmName, to: StateValue, reason: StateReason } = change;
      await metrics.send(new SetAlarmStateCommand({ AlarmName, StateValue, StateReason }));
      changes.push(change);
    }
  }
  return changes;
}

function judge(
  alarm: MetricAlarm,
  store: SampleStore,
  at: number,
  since: number,
  speed: number,
): AlarmChange | undefined {
  const rule = ruleOf(alarm, speed);
  if (rule === undefined || alarm.Namespace === undefined || alarm.MetricName === undefined) return undefined;
  if (at - since < rule.evaluationPeriods * rule.periodSeconds * 1000) return undefined;
  const dimensions = Object.fromEntries((alarm.Dimensions ?? []).map(({ Name = '', Value = '' }) => [Name, Value]));
  const samples = store.of({ namespace: alarm.Namespace, name: alarm.MetricName, dimensions });
  const from = alarm.StateValue ?? 'INSUFFICIENT_DATA';
  const { state: to, reason } = evaluateAlarm(rule, samples, from, at);
  return to === from ? undefined : { name: alarm.AlarmName ?? '', from, to, reason };
}

/** Undefined for what this project's alarms do not use and this evaluator does not know: percentiles and metric math. */
export function ruleOf(alarm: MetricAlarm, speed = 1): AlarmRule | undefined {
  const { Period, Statistic, ComparisonOperator, Threshold, EvaluationPeriods } = alarm;
  if (Period === undefined || Statistic === undefined || Threshold === undefined || EvaluationPeriods === undefined) {
    return undefined;
  }
  return {
    periodSeconds: Period / speed,
    statistic: Statistic,
    comparison: ComparisonOperator as AlarmRule['comparison'],
    threshold: Threshold,
    evaluationPeriods: EvaluationPeriods,
    datapointsToAlarm: alarm.DatapointsToAlarm ?? EvaluationPeriods,
    missingData: (alarm.TreatMissingData ?? 'missing') as AlarmRule['missingData'],
  };
}
