import { Duration } from 'aws-cdk-lib';
import { DeduplicationScope, FifoThroughputLimit, Queue, QueueEncryption, type IQueue } from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

export interface EventQueueProps {
  /** Time-out of the function that reads this queue. */
  readonly consumerTimeout: Duration;
  /**
   * How long the consumer's database may be away before messages move to the dead-letter queue. Default: 6 hours.
   * An outage is no fault of the message.
   */
  readonly outage?: Duration;
  /** False: a standard queue, for events that come in any order, as EventBridge sends them. Default: true. */
  readonly fifo?: boolean;
}

/** A queue for one consumer, and where messages go that it gives up: a new one, or one that is there already. */
export interface IEventQueue {
  readonly queue: IQueue;
  readonly deadLetterQueue: IQueue;
  readonly visibilityTimeout: Duration;
  readonly fifo: boolean;
}

/** Queues that are there already, in this stack or another. */
export interface ExistingQueues {
  readonly queue: IQueue;
  /** The one that `queue` names in its redrive policy, of the same kind: FIFO or not. */
  readonly deadLetterQueue: IQueue;
  /** As the queue has it: six times the time-out of the function that reads it, or more. */
  readonly visibilityTimeout: Duration;
}

/** SQS's limit of `maxReceiveCount`. */
const MOST_RECEIVES = 1000;

/** AWS asks for a visibility time-out of six times the function's: throttled batches are retried within it. */
export const VISIBILITY_PER_TIMEOUT = 6;

/**
 * A queue for one consumer of events, FIFO unless it says otherwise, and its dead-letter queue.
 *
 * FIFO in high-throughput mode: deduplication and limits count per message group, which is the aggregate, so the queue scales
 * with the number of aggregates instead of ending at 300 calls a second.
 */
export class EventQueue extends Construct implements IEventQueue {
  readonly queue: IQueue;
  readonly deadLetterQueue: IQueue;
  readonly visibilityTimeout: Duration;
  readonly fifo: boolean;

  /**
   * Queues of yours, as an `Outbox`, an `EventConsumer` and `OutboxAlarms` take them. A FIFO queue should deduplicate and be limited by message group, as a new one
   * is: else it ends at 300 calls a second.
   *
   * @throws RangeError where one is FIFO and the other is not
   */
  static existing({ queue, deadLetterQueue, visibilityTimeout }: ExistingQueues): IEventQueue {
    if (queue.fifo !== deadLetterQueue.fifo) {
      throw new RangeError(
        `${queue.node.path}: a queue and its dead-letter queue must both be FIFO or both not, or SQS refuses the redrive policy.`,
      );
    }
    return { queue, deadLetterQueue, visibilityTimeout, fifo: queue.fifo };
  }

  constructor(scope: Construct, id: string, props: EventQueueProps) {
    super(scope, id);
    const visibility = props.consumerTimeout.toSeconds() * VISIBILITY_PER_TIMEOUT;
    const receives = Math.ceil((props.outage ?? Duration.hours(6)).toSeconds() / visibility);
    if (receives > MOST_RECEIVES) {
      throw new RangeError(
        `${this.node.path}: ${receives} receives are needed to outlast the outage, SQS allows ${MOST_RECEIVES}. ` +
          'Raise consumerTimeout or lower outage.',
      );
    }
    this.visibilityTimeout = Duration.seconds(visibility);
    this.fifo = props.fifo ?? true;
    const shared = {
      // CloudFormation refuses `FifoQueue: false`.
      ...(this.fifo ? { fifo: true, contentBasedDeduplication: false } : {}),
      encryption: QueueEncryption.SQS_MANAGED,
      enforceSSL: true,
      // The longest that SQS keeps. Moving to the dead-letter queue starts it again.
      retentionPeriod: Duration.days(14),
    };
    this.deadLetterQueue = new Queue(this, 'DeadLetters', shared);
    this.queue = new Queue(this, 'Queue', {
      ...shared,
      ...(this.fifo
        ? {
            deduplicationScope: DeduplicationScope.MESSAGE_GROUP,
            fifoThroughputLimit: FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
          }
        : {}),
      visibilityTimeout: this.visibilityTimeout,
      deadLetterQueue: { queue: this.deadLetterQueue, maxReceiveCount: receives },
    });
  }
}
