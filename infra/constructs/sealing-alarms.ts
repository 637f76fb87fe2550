import { Duration } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, Metric, Stats, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';
import { METRIC_NAMESPACE } from './outbox.ts';

export interface SealingAlarmsProps {
  /** The `Installation` dimension of the functions' metrics, as `Outbox.installation`. */
  readonly installation: string;
  /** Told when an alarm is raised and when it goes back. */
  readonly topic: ITopic;
  /** Calls of KMS that fail within a period without anybody being told. Default: 0. */
  readonly kmsErrors?: number;
  /** A canary that was not opened for longer shows that nobody looks. The janitor opens each every day. Default: 2 days. */
  readonly canaryAge?: Duration;
  /** Length of one measurement of KMS's errors. Default: 1 minute. */
  readonly period?: Duration;
}

/** A function asks KMS every ten minutes and, after a failure, at most every ten seconds: two bad minutes of five are no hiccup. */
const REPEATED = { datapointsToAlarm: 2, evaluationPeriods: 5 };
const PERSISTENT = { datapointsToAlarm: 3, evaluationPeriods: 5 };
const PRESENT = { datapointsToAlarm: 2, evaluationPeriods: 3 };

/** The janitor measures in each run, every five minutes. */
const JANITOR_PERIOD = Duration.minutes(15);

/**
 * The alarms on a vault whose keys a `Janitor` rotates. Each says what it means and which runbook to open. What happens to the KMS key itself is told by
 * `KeyAtRisk`.
 */
export class SealingAlarms extends Construct {
  readonly alarms: readonly Alarm[];

  constructor(scope: Construct, id: string, props: SealingAlarmsProps) {
    super(scope, id);
    const { installation, period = Duration.minutes(1), kmsErrors = 0, canaryAge = Duration.days(2) } = props;
    const metric = (metricName: string, statistic: string, of: Duration): Metric =>
      new Metric({
        namespace: METRIC_NAMESPACE,
        metricName,
        dimensionsMap: { Installation: installation },
        statistic,
        period: of,
      });
    this.alarms = [
      new Alarm(this, 'KmsErrors', {
        alarmName: `${installation}-kms-errors`,
        alarmDescription:
          'Calls of KMS fail: throttled, refused, or the key is disabled. Functions go on with keys in memory for minutes, then nothing is sealed or opened. ' +
          'Runbook: docs/runbooks/kms-errors.md',
        metric: metric('KmsErrors', Stats.SUM, period),
        threshold: kmsErrors,
        comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
        ...REPEATED,
        // Nothing is written while all goes well, or nobody asks.
        treatMissingData: TreatMissingData.NOT_BREACHING,
      }),
      new Alarm(this, 'CanaryFailed', {
        alarmName: `${installation}-canary-failed`,
        alarmDescription:
          'The canary of a class of data does not open: what is sealed in that class may not open for anybody. Runbook: docs/runbooks/canary.md',
        metric: metric('CanaryFailed', Stats.MAXIMUM, JANITOR_PERIOD),
        threshold: 0,
        comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
        ...PRESENT,
        // A janitor that does not run raises the next one.
        treatMissingData: TreatMissingData.IGNORE,
      }),
      new Alarm(this, 'CanaryAge', {
        alarmName: `${installation}-canary-age`,
        alarmDescription: `No canary was opened for ${canaryAge.toHours()} hours in some class, or the janitor does not look after keys. Runbook: docs/runbooks/canary.md`,
        metric: metric('CanaryAge', Stats.MAXIMUM, JANITOR_PERIOD),
        threshold: canaryAge.toSeconds(),
        comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
        ...PERSISTENT,
        treatMissingData: TreatMissingData.BREACHING,
      }),
    ];
    const action = new SnsAction(props.topic);
    for (const alarm of this.alarms) {
      alarm.addAlarmAction(action);
      alarm.addOkAction(action);
    }
  }
}
