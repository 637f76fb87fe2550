import { Duration } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, type Metric, Stats, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import { Construct } from 'constructs';
import type { IEventQueue } from './event-queue.ts';
import type { Janitor } from './janitor.ts';
import type { Outbox } from './outbox.ts';

export interface OutboxAlarmsProps {
  readonly outbox: Outbox;
  /** Queues whose dead letters raise an alarm: a name, and the queue. */
  readonly queues: Readonly<Record<string, IEventQueue>>;
  /** Names of the consumers whose held events raise an alarm. Default: none. */
  readonly consumers?: readonly string[];
  /** Without one, nothing watches that tables stay bounded. */
  readonly janitor?: Janitor;
  /**
   * Told when an alarm is raised and when it goes back. Where it has a policy of its own, as with `enforceSSL`, that must let `cloudwatch.amazonaws.com` publish: it takes the
   * place of SNS's, and CDK grants nothing.
   */
  readonly topic: ITopic;
  /** An event that waits longer than this is late. Default: 2 minutes. */
  readonly oldestPendingAge?: Duration;
  /** So many events that wait for one destination are more than a burst. Default: 100,000, some two minutes of a relay's work. */
  readonly pendingEvents?: number;
  /** So many events behind parked ones of one destination make it urgent to decide. Default: 1,000. */
  readonly blockedEvents?: number;
  /** A relay that was not seen for longer than this is gone. Default: 4 minutes (two starts may lie nearly two apart). */
  readonly relaySilence?: Duration;
  /** A held event that waits longer for its turn waits for something that does not come by itself. Default: 15 minutes, three starts of a consumer's schedule. */
  readonly oldestHeldAge?: Duration;
  /** What is older than it need be by more than this shows that the janitor does not keep up. Default: 1 day. */
  readonly pruneLag?: Duration;
  /** Length of one measurement of what the janitor finds in its runs. Default: 15 minutes, for runs five minutes apart: a period without one is a breach. */
  readonly janitorPeriod?: Duration;
  /** Length of one measurement. Default: 1 minute, the rhythm of the monitor and of SQS's own metrics. */
  readonly period?: Duration;
}

interface AlarmText {
  readonly name: string;
  /** What it means, in one sentence. */
  readonly meaning: string;
  /** File name, without ending, in docs/runbooks. */
  readonly runbook: string;
}

/** Three late measurements of five: one slow minute or one lost sample neither raises an alarm nor ends it. */
const PERSISTENT = { datapointsToAlarm: 3, evaluationPeriods: 5 };
/** A dead letter or a parked event stays until somebody acts; two of three only guards against a sample that is wrong. */
const PRESENT = { datapointsToAlarm: 2, evaluationPeriods: 3 };

/** The janitor measures at the end of each run, every five minutes. */
const JANITOR_PERIOD = Duration.minutes(15);

/** The alarms of an outbox. Each says what it means and which runbook to open. */
export class OutboxAlarms extends Construct {
  readonly alarms: readonly Alarm[];
  private readonly prefix: string;

  constructor(scope: Construct, id: string, props: OutboxAlarmsProps) {
    super(scope, id);
    const { outbox } = props;
    this.prefix = outbox.installation;
    const period = props.period ?? Duration.minutes(1);
    const age = props.oldestPendingAge ?? Duration.minutes(2);
    const silence = props.relaySilence ?? Duration.minutes(4);
    const { pendingEvents = 100_000, blockedEvents = 1_000 } = props;

    const lag = outbox.destinations.map((destination) =>
      this.alarm(
        {
          name: `oldest-pending-age-${destination}`,
          meaning: `Events for ${destination} wait longer than ${age.toSeconds()} s in the outbox, or the monitor is silent.`,
          runbook: 'lag',
        },
        outbox.metricOldestPendingAge(destination, period),
        age.toSeconds(),
        // A monitor that reports nothing (database away, function broken) is as bad as lag: nobody would know.
        { ...PERSISTENT, treatMissingData: TreatMissingData.BREACHING },
      ),
    );
    const relay = this.alarm(
      {
        name: 'relay-silent',
        meaning: `No relay was alive for ${silence.toSeconds()} s, none ever started, or the monitor is silent.`,
        runbook: 'relay-silent',
      },
      outbox.metricRelaySilence(period),
      silence.toSeconds(),
      { ...PERSISTENT, treatMissingData: TreatMissingData.BREACHING },
    );
    const waiting = outbox.destinations.flatMap((destination) => [
      this.alarm(
        {
          name: `pending-${destination}`,
          meaning: `More than ${pendingEvents} events wait for ${destination}: more are written than sent.`,
          runbook: 'lag',
        },
        outbox.metricPending(destination, period),
        pendingEvents,
        // A silent monitor raises the alarms above; these stay as they were.
        { ...PERSISTENT, treatMissingData: TreatMissingData.IGNORE },
      ),
      this.alarm(
        {
          name: `blocked-${destination}`,
          meaning: `More than ${blockedEvents} events for ${destination} wait behind parked ones: many effects hang on what a person decides.`,
          runbook: 'blocked',
        },
        outbox.metricBlocked(destination, period),
        blockedEvents,
        { ...PRESENT, treatMissingData: TreatMissingData.IGNORE },
      ),
      this.alarm(
        {
          name: `parked-${destination}`,
          meaning: `Events for ${destination} were refused for good and wait for a person; later ones of their aggregates wait behind them.`,
          runbook: 'parked',
        },
        outbox.metricParked(destination, period),
        0,
        { ...PRESENT, treatMissingData: TreatMissingData.IGNORE },
      ),
      this.alarm(
        {
          name: `orphaned-${destination}`,
          meaning: `Events for ${destination} are blocked although nothing is parked before them: nobody would ever send them.`,
          runbook: 'blocked',
        },
        outbox.metricOrphaned(destination, period),
        0,
        { ...PRESENT, treatMissingData: TreatMissingData.IGNORE },
      ),
    ]);
    const unroutable = this.alarm(
      {
        name: 'unroutable',
        meaning: 'Events wait at a destination that was taken out of the catalogue: they have no way out.',
        runbook: 'unroutable',
      },
      outbox.metricUnroutable(period),
      0,
      { ...PRESENT, treatMissingData: TreatMissingData.IGNORE },
    );
    const dead = Object.entries(props.queues).map(([name, { deadLetterQueue }]) =>
      this.alarm(
        {
          name: `dead-letters-${name}`,
          meaning: `Messages of ${name} were given up and lie in its dead-letter queue: their events have no effect.`,
          runbook: 'dead-letters',
        },
        deadLetterQueue.metricApproximateNumberOfMessagesVisible({ period, statistic: Stats.MAXIMUM }),
        0,
        // SQS reports nothing for a queue that nobody has used for hours.
        { ...PRESENT, treatMissingData: TreatMissingData.NOT_BREACHING },
      ),
    );
    const heldAge = props.oldestHeldAge ?? Duration.minutes(15);
    const held = (props.consumers ?? []).flatMap((consumer) => [
      this.alarm(
        {
          name: `held-${consumer}`,
          meaning: `The consumer ${consumer} holds events that failed, came late or can not be read: they wait for a person, later ones of their aggregates may wait behind them.`,
          runbook: 'held',
        },
        outbox.metricOldestHeldAge(consumer, 'person', period),
        0,
        { ...PRESENT, treatMissingData: TreatMissingData.IGNORE },
      ),
      this.alarm(
        {
          name: `gap-${consumer}`,
          meaning: `The consumer ${consumer} holds events for longer than ${heldAge.toHumanString()} whose turn does not come: one before them is missing, or the consumer does not run.`,
          runbook: 'held',
        },
        outbox.metricOldestHeldAge(consumer, 'turn', period),
        heldAge.toSeconds(),
        { ...PERSISTENT, treatMissingData: TreatMissingData.IGNORE },
      ),
    ]);
    const { janitor, pruneLag = Duration.days(1), janitorPeriod = JANITOR_PERIOD } = props;
    // An erasure that is late has an alarm of its own: `SealingAlarms`.
    const areas = janitor?.areas.filter((area) => area !== 'erasure') ?? [];
    const metrics = areas.flatMap((area) =>
      janitor ? [[area, janitor.metricPruneLag(area, janitorPeriod)] as const] : [],
    );
    const pruning = metrics.map(([area, metric]) =>
      this.alarm(
        {
          name: `prune-lag-${area}`,
          meaning: `Old rows of the ${area} are overdue by more than ${pruneLag.toHumanString()}, or the janitor fails: tables grow.`,
          runbook: 'prune-lag',
        },
        metric,
        pruneLag.toSeconds(),
        { ...PERSISTENT, treatMissingData: TreatMissingData.BREACHING },
      ),
    );
    this.alarms = [...lag, relay, ...waiting, unroutable, ...dead, ...held, ...pruning];
    const action = new SnsAction(props.topic);
    for (const alarm of this.alarms) {
      alarm.addAlarmAction(action);
      alarm.addOkAction(action);
    }
  }

  private alarm(
    { name, meaning, runbook }: AlarmText,
    metric: Metric,
    threshold: number,
    persistence: { datapointsToAlarm: number; evaluationPeriods: number; treatMissingData: TreatMissingData },
  ): Alarm {
    return new Alarm(this, name, {
      alarmName: `${this.prefix}-${name}`,
      alarmDescription: `${meaning} Runbook: docs/runbooks/${runbook}.md`,
      metric,
      threshold,
      comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
      ...persistence,
    });
  }
}
