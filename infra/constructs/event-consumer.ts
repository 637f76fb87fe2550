import { Duration } from 'aws-cdk-lib';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import type { Schedule } from 'aws-cdk-lib/aws-scheduler';
import { Construct } from 'constructs';
import {
  checkConsumer,
  type ConsumerDeclaration,
  DEFAULT_WINDOW_DAYS,
  isConsumerName,
} from '../../shared/events/index.ts';
import type { DrainRequest } from '../../shared/inbox/index.ts';
import { type IEventQueue, VISIBILITY_PER_TIMEOUT } from './event-queue.ts';
import { type FunctionDefaults, NodeFunction } from './node-function.ts';
import type { DatabaseLogin, OutboxDatabase } from './outbox-database.ts';
import { startEvery } from './scheduled.ts';

export interface EventConsumerProps extends FunctionDefaults {
  /**
   * As it was declared for `eventConsumer`, too (`declareConsumer`). With the name alone, as log lines, metrics and `inbox.consumer` have it, whether its
   * mode fits the routes is found out when its function starts, and not here.
   */
  readonly consumer: ConsumerDeclaration | string;
  /** Path of the file that exports `handler` (made by `eventConsumer()`), absolute or from where `cdk` is started. */
  readonly entry: string;
  readonly source: IEventQueue;
  readonly database: OutboxDatabase;
  /** The `Installation` dimension of its metrics, as `Outbox.installation`. Default: that of the `Outbox` that shares `database`, else the stack's name. */
  readonly installation?: string;
  /** Its roles hold `inbox_consumer`, and what its own tables need. */
  readonly login: DatabaseLogin;
  /** Of one batch, up to 15 minutes. The queue's visibility time-out is at least six times as long. */
  readonly timeout: Duration;
  /** Batches handled at once, 2 or more: that many sandboxes. Default: 10. */
  readonly maxConcurrency?: number;
  /** Database connections of one sandbox: groups of a batch that are worked on side by side. Default: 4. */
  readonly connections?: number;
  /**
   * How often it goes on with what it holds when no message comes: behind a gap that has closed, ready for another try, decided by an
   * operator. False: only after its batches. Default: 5 minutes.
   */
  readonly drainEvery?: Duration | false;
  readonly environment?: Readonly<Record<string, string>>;
}

/** SQS hands at most ten messages of a FIFO queue to one invocation. */
const BATCH_SIZE = 10;

const DRAIN: DrainRequest = { action: 'drain-held' };

/** A function that applies the events of one queue, once each and in order per aggregate. */
export class EventConsumer extends Construct {
  readonly consumer: string;
  readonly database: OutboxDatabase;
  /** How old an event it still applies, as far as it was declared; undefined: it was given by its name. Days. */
  readonly windowDays: number | undefined;
  readonly function: LambdaFunction;
  /** Has it go on with held events; none where `drainEvery` is false. */
  readonly drainSchedule: Schedule | undefined;

  constructor(scope: Construct, id: string, props: EventConsumerProps) {
    super(scope, id);
    const { source, maxConcurrency = 10, connections = 4, drainEvery = Duration.minutes(5) } = props;
    const consumer = typeof props.consumer === 'string' ? props.consumer : props.consumer.name;
    this.consumer = consumer;
    this.database = props.database;
    this.windowDays =
      typeof props.consumer === 'string' ? undefined : (props.consumer.windowDays ?? DEFAULT_WINDOW_DAYS);
    this.check(props, maxConcurrency, connections);
    if (props.timeout.toSeconds() * VISIBILITY_PER_TIMEOUT > source.visibilityTimeout.toSeconds()) {
      throw new RangeError(
        `${this.node.path}: the time-out of ${props.timeout.toSeconds()} s needs a visibility time-out of ` +
          `${VISIBILITY_PER_TIMEOUT} times as much; the queue has ${source.visibilityTimeout.toSeconds()} s. ` +
          "Raise the queue's consumerTimeout.",
      );
    }
    const installation = props.installation ?? props.database.installationFor(this);
    this.function = new NodeFunction(this, 'Function', {
      ...props,
      serviceName: consumer,
      description: `Applies events: ${consumer}`,
      environment: {
        OUTBOX_INSTALLATION: installation,
        DATABASE_POOL_SIZE: String(connections),
        ...props.environment,
      },
    });
    // The schedule's invocation does not count against the concurrency of the queue's: it may need a sandbox of its own.
    const sandboxes = maxConcurrency + (drainEvery === false ? 0 : 1);
    props.database.connect(this.function, props.login, sandboxes * connections);
    this.function.addEventSource(
      new SqsEventSource(source.queue, {
        batchSize: BATCH_SIZE,
        // Without it one failed message returns the whole batch, and nine applied ones come again.
        reportBatchItemFailures: true,
        maxConcurrency,
      }),
    );
    this.drainSchedule =
      drainEvery === false
        ? undefined
        : startEvery(this, 'DrainSchedule', {
            scheduleName: `${installation}-${consumer}-drain`,
            rate: drainEvery,
            fn: this.function,
            input: DRAIN,
          });
  }

  private check({ consumer, database, login }: EventConsumerProps, maxConcurrency: number, connections: number): void {
    const wrong = (what: string): RangeError => new RangeError(`${this.node.path}: ${what}`);
    // What is deployed may be another catalogue than the one it was declared for.
    if (typeof consumer !== 'string' && database.catalogue !== undefined) checkConsumer(database.catalogue, consumer);
    if (!isConsumerName(this.consumer)) {
      throw wrong(`"${this.consumer}" is no name of a consumer. Use 1-63 of a-z 0-9 -, with a letter first.`);
    }
    if (!Number.isInteger(maxConcurrency) || maxConcurrency < 2 || maxConcurrency > 1000) {
      throw wrong(`maxConcurrency is ${maxConcurrency}. SQS takes 2 to 1000.`);
    }
    if (!Number.isInteger(connections) || connections < 1) {
      throw wrong(`connections is ${connections}. One sandbox needs 1 or more.`);
    }
    if (!login.roles.includes('inbox_consumer')) {
      throw wrong(`the login ${login.user} has not the role inbox_consumer, without which no event can be applied.`);
    }
  }
}
