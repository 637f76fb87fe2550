import { CfnOutput, Duration, RemovalPolicies, Stack, type StackProps } from 'aws-cdk-lib';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Topic } from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';
import { BusToQueue, ErasureLog, EventArchive, EventQueue, KeyAtRisk, SealingKeys } from '../index.ts';
import type { Stage } from '../stages.ts';

export interface DataStackProps extends StackProps {
  readonly stage: Stage;
  /** Who alone may disable or delete the KMS key of a stage that keeps its data. Undefined: nobody. */
  readonly breakGlassArn?: string | undefined;
}

/** `source` of the sample's catalogue; a test holds it against that. */
const SOURCE = '/invoices';

/** More than twice as long as the oldest backup that Aurora can restore, 35 days. */
const ERASURES_LOCKED = Duration.days(90);

/**
 * What holds data and outlives a new version of the functions: queues, the bus with the rule that fills one of them, the archive, the KMS key, the log of
 * erasures, the alarm topic.
 */
export class DataStack extends Stack {
  readonly ledgerQueue: EventQueue;
  readonly analyticsQueue: EventQueue;
  readonly notificationsQueue: EventQueue;
  readonly bus: EventBus;
  readonly alarmTopic: Topic;
  /** Where the stage keeps events that leave the outbox. */
  readonly archive: EventArchive | undefined;
  readonly keys: SealingKeys;

  constructor(scope: Construct, id: string, props: DataStackProps) {
    super(scope, id, props);
    const { stage } = props;
    this.ledgerQueue = new EventQueue(this, 'Ledger', {
      consumerTimeout: stage.consumerTimeout,
      outage: stage.consumerOutage,
    });
    this.analyticsQueue = new EventQueue(this, 'Analytics', {
      consumerTimeout: stage.consumerTimeout,
      outage: stage.consumerOutage,
      fifo: false,
    });
    this.notificationsQueue = new EventQueue(this, 'Notifications', {
      consumerTimeout: stage.consumerTimeout,
      outage: stage.consumerOutage,
      fifo: false,
    });
    this.bus = new EventBus(this, 'Bus', { description: `Sealed Outbox ${stage.name}: events` });
    new BusToQueue(this, 'BusToAnalytics', {
      bus: this.bus,
      queue: this.analyticsQueue,
      source: SOURCE,
    });
    this.alarmTopic = new Topic(this, 'Alarms', {
      displayName: `Sealed Outbox ${stage.name}: alarms`,
      enforceSSL: true,
    });
    // A policy of one's own takes the place of SNS's, which lets every alarm of the account publish.
    this.alarmTopic.grantPublish(
      new ServicePrincipal('cloudwatch.amazonaws.com', {
        conditions: { StringEquals: { 'aws:SourceAccount': this.account } },
      }),
    );

    this.archive = stage.retention.archive ? new EventArchive(this, 'Archive') : undefined;
    this.keys = new SealingKeys(this, 'Keys', {
      vaultName: `sealed-outbox-${stage.name}`,
      blockDeletion: stage.keepsData,
      breakGlassArn: stage.keepsData ? props.breakGlassArn : undefined,
      pendingWindow: Duration.days(stage.keepsData ? 30 : 7),
      erasureLog: new ErasureLog(this, 'Erasures', { lockFor: stage.keepsData ? ERASURES_LOCKED : undefined }),
    });
    new KeyAtRisk(this, 'KeyAtRisk', { keys: this.keys, topic: this.alarmTopic });

    new CfnOutput(this, 'LedgerQueueUrl', { value: this.ledgerQueue.queue.queueUrl });
    new CfnOutput(this, 'LedgerDeadLetterQueueUrl', { value: this.ledgerQueue.deadLetterQueue.queueUrl });
    new CfnOutput(this, 'AnalyticsQueueUrl', { value: this.analyticsQueue.queue.queueUrl });
    new CfnOutput(this, 'AnalyticsDeadLetterQueueUrl', { value: this.analyticsQueue.deadLetterQueue.queueUrl });
    new CfnOutput(this, 'NotificationsQueueUrl', { value: this.notificationsQueue.queue.queueUrl });
    new CfnOutput(this, 'NotificationsDeadLetterQueueUrl', {
      value: this.notificationsQueue.deadLetterQueue.queueUrl,
    });
    new CfnOutput(this, 'EventBusName', { value: this.bus.eventBusName });
    if (this.archive !== undefined) new CfnOutput(this, 'ArchiveBucketName', { value: this.archive.bucket.bucketName });
    new CfnOutput(this, 'SealingKeyArn', { value: this.keys.key.keyArn });
    new CfnOutput(this, 'AlarmTopicArn', { value: this.alarmTopic.topicArn });

    if (stage.keepsData) RemovalPolicies.of(this).retain();
    else RemovalPolicies.of(this).destroy();
  }
}
