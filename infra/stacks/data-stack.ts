import { CfnOutput, RemovalPolicies, Stack, type StackProps } from 'aws-cdk-lib';
import { Topic } from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';
import { EventQueue } from '../index.ts';
import type { Stage } from '../stages.ts';

export interface DataStackProps extends StackProps {
  readonly stage: Stage;
}

/** What holds data and outlives a new version of the functions: queues and the alarm topic. */
export class DataStack extends Stack {
  readonly ledgerQueue: EventQueue;
  readonly alarmTopic: Topic;

  constructor(scope: Construct, id: string, props: DataStackProps) {
    super(scope, id, props);
    const { stage } = props;
    this.ledgerQueue = new EventQueue(this, 'Ledger', {
      consumerTimeout: stage.consumerTimeout,
      outage: stage.consumerOutage,
    });
    this.alarmTopic = new Topic(this, 'Alarms', {
      displayName: `Sealed Outbox ${stage.name}: alarms`,
      enforceSSL: true,
    });

    new CfnOutput(this, 'LedgerQueueUrl', { value: this.ledgerQueue.queue.queueUrl });
    new CfnOutput(this, 'LedgerDeadLetterQueueUrl', { value: this.ledgerQueue.deadLetterQueue.queueUrl });
    new CfnOutput(this, 'AlarmTopicArn', { value: this.alarmTopic.topicArn });

    if (stage.keepsData) RemovalPolicies.of(this).retain();
    else RemovalPolicies.of(this).destroy();
  }
}
