import { Duration } from 'aws-cdk-lib';
import {
  Alarm,
  type AlarmProps,
  ComparisonOperator,
  Metric,
  Stats,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';
import type { Janitor } from './janitor.ts';
import { METRIC_NAMESPACE } from './outbox.ts';

export interface SealingAlarmsProps {
  /** The `Installation` dimension of the functions' metrics, as `Outbox.installation`. */
  readonly installation: string;
  /**
   * Told when an alarm is raised and when it goes back. Where it has a policy of its own, as with `enforceSSL`, that must let `cloudwatch.amazonaws.com` publish: it takes the
   * place of SNS's, and CDK grants nothing.
   */
  readonly topic: ITopic;
  /** What rotates the keys and finishes erasures. */
  readonly janitor: Janitor;
  /** Calls of KMS that fail within a period without anybody being told. Default: 0. */
  readonly kmsErrors?: number;
  /** A canary that was not opened for longer shows that nobody looks. The janitor opens each every day. Default: 2 days. */
  readonly canaryAge?: Duration;
  /** A branch key that is older than the janitor lets one become, by more than this, is not replaced. Default: 7 days. */
  readonly branchKeyOverdue?: Duration;
  /** A branch key that was retired longer ago still wraps keys of persons. Default: 1 day; a million keys take minutes, and an hour goes by on purpose. */
  readonly rewrapLag?: Duration;
  /** The rotation of an index's key that has not taken a step for longer is stuck. Default: 1 day; its steps are ten minutes apart, and as long as columns take. */
  readonly indexRotationLag?: Duration;
  /** More persons for whom an erasure is asked within an hour, or another `erasurePeriod`, are more than usual. Default: 50. */
  readonly erasuresAnHour?: number;
  /** Over how long erasures are counted. Default: 1 hour. */
  readonly erasurePeriod?: Duration;
  /** An erasure that is due for longer is stuck. Default: 1 hour. */
  readonly erasureLag?: Duration;
  /** Length of one measurement of KMS's errors. Default: 1 minute. */
  readonly period?: Duration;
  /** Length of one measurement of what the janitor finds in its runs. Default: 15 minutes, for runs five minutes apart: a period without one is a breach for some. */
  readonly janitorPeriod?: Duration;
}

type Rest = Pick<AlarmProps, 'metric' | 'threshold' | 'datapointsToAlarm' | 'evaluationPeriods' | 'treatMissingData'>;

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
    const { installation, janitor, period = Duration.minutes(1), kmsErrors = 0, canaryAge = Duration.days(2) } = props;
    const { erasuresAnHour = 50, erasurePeriod = Duration.hours(1), erasureLag = Duration.hours(1) } = props;
    const { branchKeyOverdue = Duration.days(7) } = props;
    const { rewrapLag = Duration.days(1), indexRotationLag = Duration.days(1), janitorPeriod = JANITOR_PERIOD } = props;
    const metric = (metricName: string, statistic: string, of: Duration): Metric =>
      new Metric({
        namespace: METRIC_NAMESPACE,
        metricName,
        dimensionsMap: { Installation: installation },
        statistic,
        period: of,
      });
    const alarm = (name: string, meaning: string, runbook: string, rest: Rest): Alarm =>
      new Alarm(this, name, {
        alarmName: `${installation}-${name}`,
        alarmDescription: `${meaning} Runbook: docs/runbooks/${runbook}.md`,
        comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
        ...rest,
      });
    const keys = [
      alarm(
        'kms-errors',
        'Calls of KMS fail: throttled, refused, or the key is disabled. Functions go on with keys in memory for minutes, then nothing is sealed or opened.',
        'kms-errors',
        {
          metric: metric('KmsErrors', Stats.SUM, period),
          threshold: kmsErrors,
          ...REPEATED,
          // Nothing is written while all goes well, or nobody asks.
          treatMissingData: TreatMissingData.NOT_BREACHING,
        },
      ),
      alarm(
        'canary-failed',
        'The canary of a class of data does not open: what is sealed in that class may not open for anybody.',
        'canary',
        {
          metric: metric('CanaryFailed', Stats.MAXIMUM, janitorPeriod),
          threshold: 0,
          ...PRESENT,
          // A janitor that does not run raises the next one.
          treatMissingData: TreatMissingData.IGNORE,
        },
      ),
      alarm(
        'canary-age',
        `No canary was opened for ${canaryAge.toHumanString()} in some class, or the janitor does not look after keys.`,
        'canary',
        {
          metric: metric('CanaryAge', Stats.MAXIMUM, janitorPeriod),
          threshold: canaryAge.toSeconds(),
          ...PERSISTENT,
          treatMissingData: TreatMissingData.BREACHING,
        },
      ),
    ];
    const branchKeyAge = Duration.seconds(janitor.branchKeyAge.toSeconds() + branchKeyOverdue.toSeconds());
    const overdue = (name: string, metricName: string, meaning: string, after: Duration): Alarm =>
      alarm(name, meaning, 'key-rotation', {
        metric: metric(metricName, Stats.MAXIMUM, janitorPeriod),
        threshold: after.toSeconds(),
        ...PERSISTENT,
        // A janitor that does not look after keys raises the alarm on the age of canaries.
        treatMissingData: TreatMissingData.IGNORE,
      });
    const rotations = [
      overdue(
        'branch-key-age',
        'BranchKeyAge',
        `A branch key is older than ${branchKeyAge.toHumanString()}: the janitor could not replace it.`,
        branchKeyAge,
      ),
      overdue(
        'rewrap-lag',
        'RewrapLag',
        `A branch key that was retired more than ${rewrapLag.toHumanString()} ago still wraps keys of persons, and can not be destroyed.`,
        rewrapLag,
      ),
    ];
    const indexRotation = (): Alarm =>
      overdue(
        'index-rotation-lag',
        'IndexRotationLag',
        `The rotation of a blind index's key has not taken a step for ${indexRotationLag.toHumanString()}: columns keep values of the old key, which stays.`,
        indexRotationLag,
      );
    const erasures = (): Alarm[] => [
      alarm(
        'erasure-rate',
        `Erasures of more than ${erasuresAnHour} persons were asked for within ${erasurePeriod.toHumanString()}: by mistake, or on purpose. What is done cannot be undone.`,
        'erasure',
        {
          metric: metric('ErasuresRequested', Stats.SUM, erasurePeriod),
          threshold: erasuresAnHour,
          // At once: each period counts, and nothing of it is a hiccup.
          datapointsToAlarm: 1,
          evaluationPeriods: 1,
          treatMissingData: TreatMissingData.NOT_BREACHING,
        },
      ),
      alarm(
        'prune-lag-erasure',
        `An erasure is due for more than ${erasureLag.toHumanString()} and not done, or the janitor fails there.`,
        'erasure',
        {
          metric: janitor.metricPruneLag('erasure', janitorPeriod),
          threshold: erasureLag.toSeconds(),
          ...PERSISTENT,
          treatMissingData: TreatMissingData.BREACHING,
        },
      ),
      alarm(
        'erasures-unapplied',
        'The log of erasures goes on having entries that the database has not done: a backup was restored, or something does not let them be done.',
        'erasure',
        {
          metric: metric('ErasuresUnapplied', Stats.MAXIMUM, janitorPeriod),
          threshold: 0,
          ...PERSISTENT,
          treatMissingData: TreatMissingData.IGNORE,
        },
      ),
    ];
    this.alarms = [
      ...keys,
      ...rotations,
      ...(janitor.indexes.length > 0 ? [indexRotation()] : []),
      ...(janitor.areas.includes('erasure') ? erasures() : []),
    ];
    const action = new SnsAction(props.topic);
    for (const one of this.alarms) {
      one.addAlarmAction(action);
      one.addOkAction(action);
    }
  }
}
