import { Alarm, type AlarmProps, ComparisonOperator, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';

/** What every construct of alarms needs. */
export interface RunbookAlarmsProps {
  /** The `Installation` dimension of metrics, as `Outbox.installation`; alarms' names begin with it. */
  readonly installation: string;
  /**
   * Told when an alarm is raised and when it goes back. Where it has a policy of its own, as with `enforceSSL`, that must let `cloudwatch.amazonaws.com` publish: it takes the
   * place of SNS's, and CDK grants nothing.
   */
  readonly topic: ITopic;
}

/** An alarm that is raised above a threshold. */
export interface RunbookAlarm extends Pick<
  AlarmProps,
  'metric' | 'threshold' | 'datapointsToAlarm' | 'evaluationPeriods' | 'treatMissingData'
> {
  readonly name: string;
  /** What it means, in one sentence. */
  readonly meaning: string;
  /** File name, without ending, in docs/runbooks. */
  readonly runbook: string;
}

/** Three late measurements of five: one slow minute or one lost sample neither raises an alarm nor ends it. */
export const PERSISTENT = { datapointsToAlarm: 3, evaluationPeriods: 5 } as const;
/** Two of three, for what is measured less often or never a hiccup. */
export const PRESENT = { datapointsToAlarm: 2, evaluationPeriods: 3 } as const;

/** For a metric of AWS that is written only where something happens. */
export const SILENCE_IS_FINE = { treatMissingData: TreatMissingData.NOT_BREACHING } as const;
/** For what the monitor measures: its silence raises the alarms of lag, and says nothing new here. */
export const STAYS_AS_IT_WAS = { treatMissingData: TreatMissingData.IGNORE } as const;

/** Makes each of `alarms`, with a description that names its runbook, and has it tell the topic. */
export function runbookAlarms(
  scope: Construct,
  { installation, topic }: RunbookAlarmsProps,
  alarms: readonly RunbookAlarm[],
): Alarm[] {
  const action = new SnsAction(topic);
  return alarms.map(({ name, meaning, runbook, ...rest }) => {
    const alarm = new Alarm(scope, name, {
      alarmName: `${installation}-${name}`,
      alarmDescription: `${meaning} Runbook: docs/runbooks/${runbook}.md`,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      ...rest,
    });
    alarm.addAlarmAction(action);
    alarm.addOkAction(action);
    return alarm;
  });
}
