import { Duration } from 'aws-cdk-lib';
import {
  type Alarm,
  AlarmStatusWidget,
  AlarmStatusWidgetSortBy,
  AlarmState,
  Dashboard,
  GraphWidget,
  type IMetric,
  type IWidget,
  Metric,
  PeriodOverride,
  SingleValueWidget,
  Stats,
  TextWidget,
} from 'aws-cdk-lib/aws-cloudwatch';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { effectAgeOf, receivesOf } from './consumer-alarms.ts';
import { databaseMetric, type ScalingCluster } from './database-alarms.ts';
import type { IEventQueue } from './event-queue.ts';
import type { Janitor } from './janitor.ts';
import { METRIC_NAMESPACE, type Outbox } from './outbox.ts';

export interface OutboxDashboardProps {
  readonly outbox: Outbox;
  /** Shown first, the raised ones before the others. At most 100, which is what CloudWatch shows in one place. */
  readonly alarms: readonly Alarm[];
  /** Queues by name, with their dead letters. */
  readonly queues: Readonly<Record<string, IEventQueue>>;
  /** Names of the consumers. */
  readonly consumers: readonly string[];
  /** Functions by name. */
  readonly functions: Readonly<Record<string, LambdaFunction>>;
  readonly janitor?: Janitor;
  /** An Aurora cluster of Serverless v2. Default: none, its capacity is not shown. */
  readonly cluster?: ScalingCluster | undefined;
}

const WIDTH = 24;
const MINUTE = Duration.minutes(1);
/** The janitor measures in each run, every five minutes. */
const JANITOR_PERIOD = Duration.minutes(5);
/** What CloudWatch takes in one alarm widget. */
const MOST_ALARMS = 100;

/**
 * One page that is read from above: is anything stuck (the alarms), where (what waits now, by place), since when (the same over the last hours), and why
 * (functions and database below).
 */
export class OutboxDashboard extends Construct {
  readonly dashboard: Dashboard;

  constructor(scope: Construct, id: string, props: OutboxDashboardProps) {
    super(scope, id);
    const { outbox, alarms } = props;
    if (alarms.length > MOST_ALARMS) {
      throw new RangeError(
        `${this.node.path}: ${alarms.length} alarms, and CloudWatch shows ${MOST_ALARMS} in one place. Leave some out.`,
      );
    }
    this.dashboard = new Dashboard(this, 'Dashboard', {
      dashboardName: outbox.installation,
      defaultInterval: Duration.hours(3),
      // A maximum over longer periods than were measured would hide when it began.
      periodOverride: PeriodOverride.INHERIT,
    });
    const isStuck = new AlarmStatusWidget({
      title: 'Is anything stuck? Open a raised alarm: its description names the runbook',
      alarms: [...alarms],
      states: [AlarmState.ALARM, AlarmState.INSUFFICIENT_DATA, AlarmState.OK],
      sortBy: AlarmStatusWidgetSortBy.STATE_UPDATED_TIMESTAMP,
      width: WIDTH,
      height: 6,
    });
    for (const row of [[isStuck], where(props), sinceWhen(props), why(props)]) this.dashboard.addWidgets(...row);
  }
}

const heading = (markdown: string): IWidget => new TextWidget({ markdown, width: WIDTH, height: 1 });

const graph = (title: string, label: string, left: IMetric[], of = 3): IWidget =>
  new GraphWidget({ title, left, leftYAxis: { label, min: 0, showUnits: false }, width: WIDTH / of, height: 6 });

const now = (title: string, metrics: IMetric[], of: number): IWidget =>
  new SingleValueWidget({ title, metrics, setPeriodToTimeRange: false, width: WIDTH / of, height: 4 });

function where({ outbox, queues, consumers }: OutboxDashboardProps): IWidget[] {
  const { destinations } = outbox;
  const each = (of: (destination: string) => Metric): IMetric[] =>
    destinations.map((destination) => of(destination).with({ label: destination }));
  return [
    heading('## Where? 0 everywhere is well, but for the relay, which is seen every few seconds'),
    now(
      'Oldest event in the outbox, seconds',
      each((it) => outbox.metricOldestPendingAge(it)),
      4,
    ),
    now(
      'Parked: wait for a person',
      each((it) => outbox.metricParked(it)),
      4,
    ),
    now(
      'Held for a person, seconds',
      consumers.map((it) => outbox.metricOldestHeldAge(it, 'person').with({ label: it })),
      4,
    ),
    now(
      'Dead letters',
      Object.entries(queues).map(([name, { deadLetterQueue }]) => visible(deadLetterQueue, name)),
      4,
    ),
    now('Relay last seen, seconds ago', [outbox.metricRelaySilence().with({ label: 'relay' })], 4),
    now(
      'Blocked behind parked ones',
      each((it) => outbox.metricBlocked(it)),
      4,
    ),
    now(
      'Held for their turn, seconds',
      consumers.map((it) => outbox.metricOldestHeldAge(it, 'turn').with({ label: it })),
      4,
    ),
    now(
      'Without a way out',
      [
        outbox.metricUnroutable().with({ label: 'unroutable' }),
        ...destinations.map((it) => outbox.metricOrphaned(it).with({ label: `orphaned ${it}` })),
      ],
      4,
    ),
  ];
}

function sinceWhen({ outbox, queues, consumers }: OutboxDashboardProps): IWidget[] {
  const { destinations, installation } = outbox;
  const byDestination = (of: (destination: string) => Metric): IMetric[] =>
    destinations.map((it) => of(it).with({ label: it }));
  const byQueue = (of: (queue: IEventQueue, name: string) => IMetric): IMetric[] =>
    Object.entries(queues).map(([name, queue]) => of(queue, name));
  return [
    heading('## Since when?'),
    graph(
      'Oldest event in the outbox',
      'seconds',
      byDestination((it) => outbox.metricOldestPendingAge(it)),
    ),
    graph(
      'Events in the outbox',
      'events',
      byDestination((it) => outbox.metricPending(it)),
    ),
    graph('Relay last seen', 'seconds ago', [outbox.metricRelaySilence().with({ label: 'relay' })]),
    graph(
      'Parked events',
      'events',
      byDestination((it) => outbox.metricParked(it)),
    ),
    graph(
      'Oldest message in a queue',
      'seconds',
      byQueue(({ queue }, label) =>
        queue.metricApproximateAgeOfOldestMessage({ period: MINUTE, statistic: Stats.MAXIMUM, label }),
      ),
    ),
    graph(
      'Messages that go back to a queue',
      'receives of one',
      consumers.map((it) => receivesOf(installation, it, MINUTE).with({ label: it })),
    ),
    graph(
      'Dead letters',
      'messages',
      byQueue(({ deadLetterQueue }, label) => visible(deadLetterQueue, label)),
    ),
    graph(
      'Events that consumers hold',
      'events',
      consumers.map((it) => outbox.metricHeldEvents(it).with({ label: it })),
    ),
    graph(
      'Age of events at their effect',
      'seconds',
      consumers.map((it) => effectAgeOf(installation, it, MINUTE).with({ label: it })),
    ),
    graph(
      'Effects',
      'a minute',
      consumers.map((it) => summed(installation, 'Effects', MINUTE, { Consumer: it }).with({ label: it })),
    ),
  ];
}

function why({ outbox, functions, janitor, cluster }: OutboxDashboardProps): IWidget[] {
  const { installation } = outbox;
  const byFunction = (of: (fn: LambdaFunction, label: string) => IMetric): IMetric[] =>
    Object.entries(functions).map(([name, fn]) => of(fn, name));
  const database = (metricName: string, label: string): IMetric =>
    databaseMetric(installation, metricName, MINUTE).with({ label });
  return [
    heading(`## Why? Log lines: the saved query ${installation}/errors`),
    graph('Errors of functions', 'invocations', [
      ...byFunction((fn, label) => fn.metricErrors({ period: MINUTE, statistic: Stats.SUM, label })),
      summed(installation, 'KmsErrors', MINUTE, {}).with({ label: 'calls of KMS' }),
    ]),
    graph(
      'Throttles of functions',
      'invocations',
      byFunction((fn, label) => fn.metricThrottles({ period: MINUTE, statistic: Stats.SUM, label })),
    ),
    graph(
      'Duration of functions',
      'milliseconds',
      byFunction((fn, label) => fn.metricDuration({ period: MINUTE, statistic: Stats.MAXIMUM, label })),
    ),
    graph('Use of the database', 'percent', [
      database('ConnectionsUsed', 'connections'),
      ...(cluster === undefined
        ? []
        : [cluster.metricACUUtilization({ period: MINUTE, statistic: Stats.MAXIMUM, label: 'capacity' })]),
    ]),
    graph('Oldest transaction', 'seconds', [database('OldestTransactionAge', 'oldest transaction')]),
    graph('Age of snapshots and of transaction ids', 'transactions', [
      database('SnapshotAge', 'snapshot'),
      database('TransactionIdAge', 'transaction id'),
    ]),
    ...(janitor === undefined
      ? []
      : [
          graph(
            'What the janitor has not come to',
            'seconds',
            janitor.areas.map((area) => janitor.metricPruneLag(area, JANITOR_PERIOD).with({ label: area })),
          ),
        ]),
  ];
}

const visible = (queue: IEventQueue['deadLetterQueue'], label: string): IMetric =>
  queue.metricApproximateNumberOfMessagesVisible({ period: MINUTE, statistic: Stats.MAXIMUM, label });

function summed(
  installation: string,
  metricName: string,
  period: Duration,
  dimensions: Readonly<Record<string, string>>,
): Metric {
  return new Metric({
    namespace: METRIC_NAMESPACE,
    metricName,
    dimensionsMap: { Installation: installation, ...dimensions },
    statistic: Stats.SUM,
    period,
  });
}
