import { type IEventBus, Rule, RuleTargetInput } from 'aws-cdk-lib/aws-events';
import { SqsQueue } from 'aws-cdk-lib/aws-events-targets';
import { Construct } from 'constructs';
import type { IEventQueue } from './event-queue.ts';

export interface BusToQueueProps {
  readonly bus: IEventBus;
  readonly queue: IEventQueue;
  /** The catalogue's `source`, such as `/invoices`. */
  readonly source: string;
  /** Event types that are handed on. Default: all of the source. */
  readonly types?: readonly string[];
}

/**
 * A rule that hands events of a bus to a consumer's queue, as the messages that the relay would have put there itself: the envelope
 * without EventBridge's own around it.
 *
 * What cannot be delivered to the queue for a day goes to the queue's dead letters, where the alarm sees it; without that,
 * EventBridge would drop it.
 */
export class BusToQueue extends Construct {
  readonly rule: Rule;

  constructor(scope: Construct, id: string, { bus, queue, source, types }: BusToQueueProps) {
    super(scope, id);
    this.rule = new Rule(this, 'Rule', {
      eventBus: bus,
      description: `Hands events of ${source} to a queue`,
      eventPattern: { source: [source], ...(types === undefined ? {} : { detailType: [...types] }) },
    });
    this.rule.addTarget(
      new SqsQueue(queue.queue, {
        message: RuleTargetInput.fromEventPath('$.detail'),
        deadLetterQueue: queue.deadLetterQueue,
      }),
    );
  }
}
