import { type Duration, Stack } from 'aws-cdk-lib';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import { Construct } from 'constructs';
import { type EventQueue, VISIBILITY_PER_TIMEOUT } from './event-queue.ts';
import { type FunctionDefaults, NodeFunction } from './node-function.ts';
import type { DatabaseLogin, OutboxDatabase } from './outbox-database.ts';

export interface EventConsumerProps extends FunctionDefaults {
  /** The consumer's name: in log lines, metrics and `inbox.consumer`. */
  readonly consumer: string;
  /** Path, from the repository's root, of the file that exports `handler` (made by `eventConsumer()`). */
  readonly entry: string;
  readonly source: EventQueue;
  readonly database: OutboxDatabase;
  readonly login: DatabaseLogin;
  readonly timeout: Duration;
  /** Batches handled at once, 2 or more: that many sandboxes. Default: 10. */
  readonly maxConcurrency?: number;
  /** Database connections of one sandbox: groups of a batch that are worked on side by side. Default: 4. */
  readonly connections?: number;
  readonly environment?: Readonly<Record<string, string>>;
}

/** SQS hands at most ten messages of a FIFO queue to one invocation. */
const BATCH_SIZE = 10;

/** A function that applies the events of one queue, once each and in order per aggregate. */
export class EventConsumer extends Construct {
  readonly function: LambdaFunction;

  constructor(scope: Construct, id: string, props: EventConsumerProps) {
    super(scope, id);
    const { source, consumer, maxConcurrency = 10, connections = 4 } = props;
    if (props.timeout.toSeconds() * VISIBILITY_PER_TIMEOUT > source.visibilityTimeout.toSeconds()) {
      throw new RangeError(
        `${this.node.path}: the time-out of ${props.timeout.toSeconds()} s needs a visibility time-out of ` +
          `${VISIBILITY_PER_TIMEOUT} times as much; the queue has ${source.visibilityTimeout.toSeconds()} s. ` +
          "Raise the queue's consumerTimeout.",
      );
    }
    this.function = new NodeFunction(this, 'Function', {
      ...props,
      serviceName: consumer,
      description: `Applies events: ${consumer}`,
      environment: {
        OUTBOX_INSTALLATION: Stack.of(this).stackName,
        DATABASE_POOL_SIZE: String(connections),
        ...props.environment,
      },
    });
    props.database.connect(this.function, props.login, maxConcurrency * connections);
    this.function.addEventSource(
      new SqsEventSource(source.queue, {
        batchSize: BATCH_SIZE,
        // Without it one failed message returns the whole batch, and nine applied ones come again.
        reportBatchItemFailures: true,
        maxConcurrency,
      }),
    );
  }
}
