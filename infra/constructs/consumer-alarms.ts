import { Duration } from 'aws-cdk-lib';
import { type Alarm, Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { Construct } from 'constructs';
import type { IEventQueue } from './event-queue.ts';
import { METRIC_NAMESPACE } from './outbox.ts';
import { PERSISTENT, runbookAlarms, type RunbookAlarmsProps, SILENCE_IS_FINE } from './runbook-alarms.ts';

export interface ConsumerAlarmsProps extends RunbookAlarmsProps {
  /** Queues whose messages may not get old: a name, and the queue. */
  readonly queues: Readonly<Record<string, IEventQueue>>;
  /** Names of the consumers whose effects may not be late. */
  readonly consumers: readonly string[];
  /** A message that waits longer in its queue is late. Default: 10 minutes, well below the hours after which it is a dead letter. */
  readonly queueAge?: Duration;
  /** An event that is older when its effect is committed came late. Default: 15 minutes. */
  readonly effectAge?: Duration;
  /** A message that goes back to its queue after more receives does not get through. Default: 3, after which SQS leaves it out of the age of its queue. */
  readonly receives?: number;
  /** Length of one measurement. Default: 1 minute. Of messages that go back it is 5 minutes. */
  readonly period?: Duration;
}

/** Whether events that were published have their effects in time: how old messages get in their queues, how often they go back, and how old events are when they are applied. */
export class ConsumerAlarms extends Construct {
  readonly alarms: readonly Alarm[];

  constructor(scope: Construct, id: string, props: ConsumerAlarmsProps) {
    super(scope, id);
    const { installation, queues, consumers, period = Duration.minutes(1) } = props;
    const { queueAge = Duration.minutes(10), effectAge = Duration.minutes(15), receives = 3 } = props;
    this.alarms = runbookAlarms(this, props, [
      ...Object.entries(queues).map(([name, { queue }]) => ({
        name: `queue-age-${name}`,
        meaning: `Messages of ${name} wait longer than ${queueAge.toSeconds()} s in the queue: the consumer does not run, fails, or is too slow.`,
        runbook: 'late-effects',
        metric: queue.metricApproximateAgeOfOldestMessage({ period, statistic: Stats.MAXIMUM }),
        threshold: queueAge.toSeconds(),
        ...PERSISTENT,
        // SQS reports nothing for a queue that nobody has used for hours.
        ...SILENCE_IS_FINE,
      })),
      ...consumers.map((consumer) => ({
        name: `effect-age-${consumer}`,
        meaning: `Events are older than ${effectAge.toSeconds()} s when the consumer ${consumer} applies them: it catches up, or what comes before it is late.`,
        runbook: 'late-effects',
        metric: effectAgeOf(installation, consumer, period),
        threshold: effectAge.toSeconds(),
        ...PERSISTENT,
        // Written with each effect, so nothing is written where nothing happens. What does not come at all raises the others.
        ...SILENCE_IS_FINE,
      })),
      ...consumers.map((consumer) => ({
        name: `returned-${consumer}`,
        meaning: `Messages of the consumer ${consumer} go back to its queue again and again, ${receives + 1} times and more: its database or its keys are away, or its time is too short.`,
        runbook: 'late-effects',
        metric: receivesOf(installation, consumer, Duration.minutes(5)),
        threshold: receives,
        // A message comes again after the visibility time-out: six times that of the function.
        datapointsToAlarm: 2,
        evaluationPeriods: 6,
        // Written only where a message goes back.
        ...SILENCE_IS_FINE,
      })),
    ]);
  }
}

/** The greatest age (seconds, since its append) of an event that `consumer` applied in a period. */
export function effectAgeOf(installation: string, consumer: string, period: Duration): Metric {
  return greatest('EffectAge', installation, consumer, period);
}

/** How often the message was received that went back to the queue of `consumer` in a period; of several the most. */
export function receivesOf(installation: string, consumer: string, period: Duration): Metric {
  return greatest('Receives', installation, consumer, period);
}

function greatest(metricName: string, installation: string, consumer: string, period: Duration): Metric {
  return new Metric({
    namespace: METRIC_NAMESPACE,
    metricName,
    dimensionsMap: { Installation: installation, Consumer: consumer },
    statistic: Stats.MAXIMUM,
    period,
  });
}
