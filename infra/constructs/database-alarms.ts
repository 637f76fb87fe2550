import { Duration } from 'aws-cdk-lib';
import { type Alarm, Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import type { DatabaseCluster } from 'aws-cdk-lib/aws-rds';
import { Construct } from 'constructs';
import { METRIC_NAMESPACE } from './outbox.ts';
import { PERSISTENT, runbookAlarms, type RunbookAlarmsProps, STAYS_AS_IT_WAS } from './runbook-alarms.ts';

/** What is read of an Aurora cluster of Serverless v2: a `DatabaseCluster`, or whatever has the metric of one. */
export type ScalingCluster = Pick<DatabaseCluster, 'metricACUUtilization'>;

export interface DatabaseAlarmsProps extends RunbookAlarmsProps {
  /** An Aurora cluster of Serverless v2, whose capacity is watched. Default: none; everything else is measured by the monitor, in any PostgreSQL. */
  readonly cluster?: ScalingCluster | undefined;
  /** More of the cluster's greatest capacity in use leaves no room. Percent. Default: 90. */
  readonly capacityPercent?: number;
  /** More of the server's connections in use leaves no room. Percent of `max_connections`. Default: 80. */
  readonly connectionsPercent?: number;
  /** A transaction that is open for longer keeps deleted rows on disk, and locks. Default: 15 minutes. */
  readonly oldestTransaction?: Duration;
  /** So many transactions after a row was deleted it should be gone. Default: 1,000,000, a quarter of an hour at a thousand a second. */
  readonly snapshotAge?: number;
  /** So many transactions without a freeze are too many: PostgreSQL stops writing before 2 billion. Default: 500,000,000. */
  readonly transactionIdAge?: number;
  /** Length of one measurement. Default: 1 minute. */
  readonly period?: Duration;
}

/** The alarms on the database below the outbox, by the monitor's own probe and, of an Aurora cluster, by its capacity. */
export class DatabaseAlarms extends Construct {
  readonly alarms: readonly Alarm[];

  constructor(scope: Construct, id: string, props: DatabaseAlarmsProps) {
    super(scope, id);
    const { installation, cluster, period = Duration.minutes(1) } = props;
    const { capacityPercent = 90, connectionsPercent = 80, oldestTransaction = Duration.minutes(15) } = props;
    const { snapshotAge = 1_000_000, transactionIdAge = 500_000_000 } = props;
    const probed = (metricName: string, threshold: number) => ({
      metric: databaseMetric(installation, metricName, period),
      threshold,
      runbook: 'database',
      ...PERSISTENT,
      ...STAYS_AS_IT_WAS,
    });
    this.alarms = runbookAlarms(this, props, [
      {
        name: 'connections',
        meaning: `More than ${connectionsPercent} percent of the database's connections are in use: soon functions are refused.`,
        ...probed('ConnectionsUsed', connectionsPercent),
      },
      {
        name: 'oldest-transaction',
        meaning: `A transaction is open for longer than ${oldestTransaction.toHumanString()}: it keeps deleted rows on disk, and its locks.`,
        ...probed('OldestTransactionAge', oldestTransaction.toSeconds()),
      },
      {
        name: 'snapshot-age',
        meaning: `Rows that were deleted ${snapshotAge} transactions ago can not be cleaned up: a session, a prepared transaction or a replication slot holds them.`,
        ...probed('SnapshotAge', snapshotAge),
      },
      {
        name: 'transaction-id-age',
        meaning: `A database was not frozen for ${transactionIdAge} transactions: vacuum does not keep up, and PostgreSQL stops writing before 2 billion.`,
        ...probed('TransactionIdAge', transactionIdAge),
      },
      ...(cluster === undefined
        ? []
        : [
            {
              name: 'capacity',
              meaning: `The cluster uses more than ${capacityPercent} percent of its greatest capacity: it can not grow any more.`,
              metric: cluster.metricACUUtilization({ period, statistic: Stats.MAXIMUM }),
              threshold: capacityPercent,
              runbook: 'database',
              ...PERSISTENT,
              ...STAYS_AS_IT_WAS,
            },
          ]),
    ]);
  }
}

/** A measurement of the database by the monitor: `ConnectionsUsed`, `OldestTransactionAge`, `SnapshotAge` or `TransactionIdAge`. */
export function databaseMetric(installation: string, metricName: string, period: Duration): Metric {
  return new Metric({
    namespace: METRIC_NAMESPACE,
    metricName,
    dimensionsMap: { Installation: installation },
    statistic: Stats.MAXIMUM,
    period,
  });
}
