import { Duration, Stack } from 'aws-cdk-lib';
import { Metric, Stats } from 'aws-cdk-lib/aws-cloudwatch';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import type { Schedule } from 'aws-cdk-lib/aws-scheduler';
import { Construct } from 'constructs';
import { checkDestinations, type Destination, isBus, queueOf } from './destination.ts';
import { type FunctionDefaults, NodeFunction } from './node-function.ts';
import type { DatabaseLogin, OutboxDatabase } from './outbox-database.ts';
import { startEvery } from './scheduled.ts';

export interface OutboxProps extends FunctionDefaults {
  readonly database: OutboxDatabase;
  /** What its metrics, alarms and schedules are told apart by in the account and region. Default: the stack's name, which is enough for one outbox in a stack. */
  readonly installation?: string;
  /** Where events go: each destination of the catalogue by its name, and the queue or bus behind it, of this stack or another. */
  readonly destinations: Readonly<Record<string, Destination>>;
  /**
   * `continuous`: a relay is always running, an event leaves within a fraction of a second.
   * `drain`: a relay starts each minute and ends when nothing is left: cheaper, up to two minutes late. Default: `continuous`.
   */
  readonly mode?: 'continuous' | 'drain';
  /** Whether the consumers' tables are in this database, too: the monitor then measures what they hold. Default: true. */
  readonly inbox?: boolean;
  /** When a continuous relay ends at latest. The next one starts within two minutes. Default: 150 s. */
  readonly longestRun?: Duration;
  /**
   * Concurrency of the account that is kept for the relay alone, so that a rush of other functions cannot stop it. As many as runs may overlap, or more: four with
   * the default `longestRun`. Default: none, for AWS refuses it where fewer than 100 would be left to the account.
   */
  readonly reservedConcurrency?: number;
}

/** A run that has reached its end still finishes what is in flight: a send takes 5 s at most, a statement 10. */
const GRACE = Duration.seconds(30);
/** Schedules are precise to a minute, no better: two starts can lie nearly two minutes apart. */
const EVERY_MINUTE = Duration.minutes(1);
/** The namespace of every metric of this project. */
export const METRIC_NAMESPACE = 'SealedOutbox';

/**
 * The relay, which takes events from the outbox to their destinations, and the monitor, which measures from the database's
 * side how long they wait, there and in the inbox: with a relay or a consumer that is dead or was never started, the monitor still tells.
 */
export class Outbox extends Construct {
  readonly relayFunction: LambdaFunction;
  readonly relaySchedule: Schedule;
  readonly monitorFunction: LambdaFunction;
  readonly monitorSchedule: Schedule;
  readonly destinations: readonly string[];
  /** The `Installation` dimension of every metric. */
  readonly installation: string;
  private readonly database: OutboxDatabase;

  constructor(scope: Construct, id: string, props: OutboxProps) {
    super(scope, id);
    const stack = Stack.of(this);
    const { database, inbox = true } = props;
    this.database = database;
    checkDestinations(this.node.path, props.destinations, database.catalogue);
    const longestRun = props.longestRun ?? Duration.seconds(150);
    this.installation = props.installation ?? stack.stackName;
    const same = stack.node
      .findAll()
      .find((it) => it instanceof Outbox && it !== this && it.installation === this.installation);
    if (same !== undefined) {
      throw new RangeError(
        `${this.node.path}: ${same.node.path} is the installation "${this.installation}" already, and schedules and alarms of both would have the same names. ` +
          'Give one of them another "installation".',
      );
    }
    database.installation = this.installation;
    this.destinations = Object.keys(props.destinations);
    // One connection a run; so many runs overlap at most, and one more where a start is late.
    const runs = Math.ceil(longestRun.plus(GRACE).toSeconds() / 60) + 1;
    const { reservedConcurrency } = props;
    if (reservedConcurrency !== undefined && reservedConcurrency < runs) {
      throw new RangeError(
        `${this.node.path}: reservedConcurrency is ${reservedConcurrency}, and ${runs} runs of the relay may overlap: the next one could not start. ` +
          'Raise it, or lower longestRun.',
      );
    }
    const slot = `${this.installation}-relay`;
    const destinations = Object.entries(props.destinations);

    this.relayFunction = new NodeFunction(this, 'Relay', {
      ...props,
      entry: { own: 'relay' },
      serviceName: 'relay',
      description: 'Publishes events from the outbox, in order per aggregate',
      timeout: longestRun.plus(GRACE),
      memorySize: 1769,
      environment: {
        OUTBOX_INSTALLATION: this.installation,
        OUTBOX_DESTINATIONS: stack.toJsonString(
          Object.fromEntries(destinations.map(([name, destination]) => [name, addressOf(destination, stack)])),
        ),
        OUTBOX_SLOT: slot,
        RELAY_MODE: props.mode ?? 'continuous',
        RELAY_MAX_SECONDS: String(longestRun.toSeconds()),
        ...(database.cluster !== undefined && { OUTBOX_CLUSTER: database.cluster }),
      },
      scheduled: true,
      reservedConcurrency,
    });
    for (const [, destination] of destinations) grantPublish(destination, this.relayFunction);
    database.connect(this.relayFunction, { user: 'sealed_relay', roles: ['outbox_relay'] }, runs);
    this.relaySchedule = startEvery(this, 'RelaySchedule', {
      scheduleName: slot,
      rate: EVERY_MINUTE,
      fn: this.relayFunction,
    });

    this.monitorFunction = new NodeFunction(this, 'Monitor', {
      ...props,
      entry: { own: 'monitor' },
      serviceName: 'monitor',
      description: 'Measures how long events wait in the outbox and in the inbox, independent of relay and consumers',
      timeout: Duration.seconds(30),
      environment: { OUTBOX_INSTALLATION: this.installation, MONITOR_INBOX: String(inbox) },
      scheduled: true,
    });
    database.connect(this.monitorFunction, {
      user: 'sealed_monitor',
      roles: ['outbox_monitor', ...(inbox ? ['inbox_monitor'] : [])],
    });
    this.monitorSchedule = startEvery(this, 'MonitorSchedule', {
      scheduleName: `${this.installation}-monitor`,
      rate: EVERY_MINUTE,
      fn: this.monitorFunction,
    });
  }

  /**
   * Lets `fn` append events: it connects as a login of its own, which is created by the migration and may append besides what its roles allow.
   *
   * ```ts
   * outbox.grantAppend(checkout, { user: 'shop_checkout', roles: ['shop_writer'] }, 20);
   * ```
   *
   * @param connections at once, of all sandboxes of `fn` together; the server holds the login to it
   * @throws RangeError as `OutboxDatabase.connect`
   */
  grantAppend(fn: LambdaFunction, login: DatabaseLogin, connections: number): void {
    this.database.connect(fn, { ...login, roles: [...login.roles, 'outbox_writer'] }, connections);
  }

  /** Age of the oldest event that waits for `destination`, in seconds; parked and blocked ones do not count. */
  metricOldestPendingAge(destination: string, period = Duration.minutes(1)): Metric {
    return this.metric('OldestPendingAge', period, { Destination: destination });
  }

  /** Deliveries to `destination` that wait to be sent; parked and blocked ones do not count. */
  metricPending(destination: string, period = Duration.minutes(1)): Metric {
    return this.metric('Pending', period, { Destination: destination });
  }

  /** Deliveries to `destination` that wait behind a parked one. */
  metricBlocked(destination: string, period = Duration.minutes(1)): Metric {
    return this.metric('Blocked', period, { Destination: destination });
  }

  /** Deliveries to `destination` that were refused and wait for a person. */
  metricParked(destination: string, period = Duration.minutes(1)): Metric {
    return this.metric('Parked', period, { Destination: destination });
  }

  /** Deliveries to `destination` that are blocked although nothing is parked below them. There should be none. */
  metricOrphaned(destination: string, period = Duration.minutes(1)): Metric {
    return this.metric('Orphaned', period, { Destination: destination });
  }

  /** Deliveries that wait at destinations which were taken out of the catalogue. */
  metricUnroutable(period = Duration.minutes(1)): Metric {
    return this.metric('Unroutable', period, {});
  }

  /** Seconds since the youngest relay was seen alive. No value while there never was one. */
  metricRelaySilence(period = Duration.minutes(1)): Metric {
    return this.metric('RelaySilence', period, {});
  }

  /** Events that `consumer` holds. */
  metricHeldEvents(consumer: string, period = Duration.minutes(1)): Metric {
    return this.metric('HeldEvents', period, { Consumer: consumer });
  }

  /** Seconds since `consumer` holds the oldest event that waits for a person, or for its turn (behind a gap, for another try); 0: none. */
  metricOldestHeldAge(consumer: string, waitsFor: 'person' | 'turn', period = Duration.minutes(1)): Metric {
    return this.metric('OldestHeldAge', period, { Consumer: consumer, WaitsFor: waitsFor });
  }

  private metric(metricName: string, period: Duration, dimensions: Record<string, string>): Metric {
    return new Metric({
      namespace: METRIC_NAMESPACE,
      metricName,
      dimensionsMap: { Installation: this.installation, ...dimensions },
      statistic: Stats.MAXIMUM,
      period,
    });
  }
}

/** As `functions/relay` reads it. */
function addressOf(destination: Destination, { account, region }: Stack): Record<string, string> {
  if (isBus(destination)) {
    // By its name at home (the local cloud describes no bus by its ARN), by its ARN in another account or region.
    const home = destination.env.account === account && destination.env.region === region;
    return { kind: 'eventbridge', bus: home ? destination.eventBusName : destination.eventBusArn };
  }
  const { queueUrl: url, fifo } = queueOf(destination);
  return { kind: fifo ? 'sqs-fifo' : 'sqs', url };
}

function grantPublish(destination: Destination, relay: LambdaFunction): void {
  if (!isBus(destination)) {
    queueOf(destination).grantSendMessages(relay);
    return;
  }
  // Describe: PutEvents to a bus that is not there may answer with success, so the relay asks first.
  relay.addToRolePolicy(
    new PolicyStatement({
      actions: ['events:PutEvents', 'events:DescribeEventBus'],
      resources: [destination.eventBusArn],
    }),
  );
}
