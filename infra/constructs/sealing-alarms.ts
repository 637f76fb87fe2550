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
  /** Length of one measurement. Default: 1 minute. */
  readonly period?: Duration;
}

/** A function asks KMS every ten minutes and, after a failure, at most every ten seconds: two bad minutes of five are no hiccup. */
const REPEATED = { datapointsToAlarm: 2, evaluationPeriods: 5 };

/** The alarms on the use of a vault's keys. Each says what it means and which runbook to open. What happens to the KMS key itself is told by `KeyAtRisk`. */
export class SealingAlarms extends Construct {
  readonly alarms: readonly Alarm[];

  constructor(scope: Construct, id: string, props: SealingAlarmsProps) {
    super(scope, id);
    const { installation, period = Duration.minutes(1), kmsErrors = 0 } = props;
    const errors = new Alarm(this, 'KmsErrors', {
      alarmName: `${installation}-kms-errors`,
      alarmDescription:
        'Calls of KMS fail: throttled, refused, or the key is disabled. Functions go on with keys in memory for minutes, then nothing is sealed or opened. ' +
        'Runbook: docs/runbooks/kms-errors.md',
      metric: new Metric({
        namespace: METRIC_NAMESPACE,
        metricName: 'KmsErrors',
        dimensionsMap: { Installation: installation },
        statistic: Stats.SUM,
        period,
      }),
      threshold: kmsErrors,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      ...REPEATED,
      // Nothing is written while all goes well, or nobody asks.
      treatMissingData: TreatMissingData.NOT_BREACHING,
    });
    this.alarms = [errors];
    const action = new SnsAction(props.topic);
    for (const alarm of this.alarms) {
      alarm.addAlarmAction(action);
      alarm.addOkAction(action);
    }
  }
}
