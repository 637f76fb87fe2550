import { Annotations, CfnOutput, Duration, RemovalPolicies, Stack, type StackProps } from 'aws-cdk-lib';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Topic } from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';
import { SecurityGroup, Subnet, Vpc } from 'aws-cdk-lib/aws-ec2';
import {
  BusToQueue,
  type DatabaseConnection,
  ErasureLog,
  EventArchive,
  EventQueue,
  type ExistingNetwork,
  firstZones,
  KeyAtRisk,
  OutboxCluster,
  OutboxNetwork,
  SealingKeys,
} from '../index.ts';
import type { NetworkSetting, SubnetSetting } from '../network-setting.ts';
import type { Stage } from '../stages.ts';

export interface DataStackProps extends StackProps {
  readonly stage: Stage;
  /** Who alone may disable or delete the KMS key of a stage that keeps its data. Undefined: nobody. */
  readonly breakGlassArn?: string | undefined;
  /** Where functions run: undefined locally, and where they reach the database without a VPC. */
  readonly network: NetworkSetting | undefined;
  /** A database that is there already. Undefined: an Aurora cluster is made. */
  readonly database: DatabaseConnection | undefined;
}

/** `source` of the sample's catalogue; a test holds it against that. */
const SOURCE = '/invoices';

/** More than twice as long as the oldest backup that Aurora can restore, 35 days. */
const ERASURES_LOCKED = Duration.days(90);

/**
 * What goes when it leaves the template, also where a stage keeps its data: a rule that stayed would let somebody in, a NAT gateway would be paid for. What is in no list stays, and so
 * do policies of buckets, queues and topics: without them what is kept would be open to more.
 */
const WITHOUT_DATA = [
  'AWS::EC2::EIP',
  'AWS::EC2::FlowLog',
  'AWS::EC2::InternetGateway',
  'AWS::EC2::NatGateway',
  'AWS::EC2::Route',
  'AWS::EC2::RouteTable',
  'AWS::EC2::SecurityGroupEgress',
  'AWS::EC2::SecurityGroupIngress',
  'AWS::EC2::SubnetRouteTableAssociation',
  'AWS::EC2::VPCEndpoint',
  'AWS::EC2::VPCGatewayAttachment',
  'AWS::Events::Rule',
  'AWS::IAM::Policy',
  'AWS::IAM::Role',
];

/**
 * What holds data and outlives a new version of the functions: network and database, queues, the bus with the rule that fills one of them, the archive, the KMS key, the log of
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
  readonly network: OutboxNetwork | undefined;
  readonly cluster: OutboxCluster | undefined;
  private readonly zones: readonly string[];

  constructor(scope: Construct, id: string, props: DataStackProps) {
    super(scope, id, props);
    const { stage, network } = props;
    this.zones = network?.zones ?? firstZones(3);
    this.network = network && this.createNetwork(network, props);
    this.cluster = this.network && props.database === undefined ? this.createCluster(this.network, props) : undefined;
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
    new KeyAtRisk(this, 'KeyAtRisk', {
      keys: this.keys,
      storageKeys: this.cluster === undefined ? [] : [this.cluster.encryptionKey],
      topic: this.alarmTopic,
    });

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

    if (this.cluster !== undefined) {
      new CfnOutput(this, 'DatabaseHost', { value: this.cluster.connection.host });
      new CfnOutput(this, 'DatabaseResourceId', { value: this.cluster.cluster.clusterResourceIdentifier });
      // Kept where nobody imports them any more: with another cluster (`restoredCluster`) this stack is deployed before the one that still does.
      this.exportValue(this.cluster.connection.host);
      this.exportValue(this.cluster.cluster.clusterResourceIdentifier);
      this.exportValue(this.cluster.cluster.clusterIdentifier);
    }

    if (stage.keepsData) this.keep();
    else RemovalPolicies.of(this).destroy();
  }

  /** What a failed first deployment has made goes with it: with plain `Retain` it would stay, and names be taken at the next one. */
  private keep(): void {
    const policies = RemovalPolicies.of(this);
    policies.retainOnUpdateOrDelete();
    policies.destroy({ applyToResourceTypes: WITHOUT_DATA });
    // Nobody may schedule their deletion, which would end the roll-back of a creation.
    policies.retain({ applyToResourceTypes: ['AWS::KMS::Key'] });
  }

  /** Without a look-up in the account, which CDK would make. */
  override get availabilityZones(): string[] {
    return [...this.zones];
  }

  private createNetwork(setting: NetworkSetting, { stage, database }: DataStackProps): OutboxNetwork {
    const { existing, zones, cidr, egress, natGateways, s3PrefixList } = setting;
    return new OutboxNetwork(this, 'Network', {
      ...stage.network,
      ...(zones !== undefined && { zones: zones.length as 2 | 3 }),
      ...(cidr !== undefined && { cidr }),
      ...(s3PrefixList !== undefined && { s3PrefixList }),
      ...(existing !== undefined && {
        existing: { ...this.existingNetwork(existing), ...(database !== undefined && { databasePort: database.port }) },
      }),
      egress,
      ...(natGateways !== undefined && { natGateways }),
      logRetention: stage.logRetention,
    });
  }

  private existingNetwork({
    vpcId,
    endpoints,
    endpointSecurityGroup,
    databaseSecurityGroup,
    ...setting
  }: NonNullable<NetworkSetting['existing']>): ExistingNetwork {
    const subnet = ({ id: subnetId, zone: availabilityZone, routeTable }: SubnetSetting) => {
      const attributes = { subnetId, availabilityZone, ...(routeTable !== undefined && { routeTableId: routeTable }) };
      const found = Subnet.fromSubnetAttributes(this, `Existing-${subnetId}`, attributes);
      // Only a gateway of S3 asks for it, and then the setting has it.
      Annotations.of(found).acknowledgeWarning('@aws-cdk/aws-ec2:noSubnetRouteTableId');
      return found;
    };
    const availabilityZones = [...new Set(setting.subnets.map(({ zone }) => zone))];
    return {
      vpc: Vpc.fromVpcAttributes(this, 'ExistingVpc', { vpcId, availabilityZones }),
      subnets: setting.subnets.map(subnet),
      egressSubnets: setting.egressSubnets.map(subnet),
      endpoints,
      ...(endpointSecurityGroup !== undefined && {
        endpointGroup: SecurityGroup.fromSecurityGroupId(this, 'ExistingEndpointGroup', endpointSecurityGroup),
      }),
      ...(databaseSecurityGroup !== undefined && {
        databaseGroup: SecurityGroup.fromSecurityGroupId(this, 'ExistingDatabaseGroup', databaseSecurityGroup),
      }),
    };
  }

  private createCluster(
    { vpc, subnets, functions, functionsWithEgress }: OutboxNetwork,
    { stage, breakGlassArn }: DataStackProps,
  ): OutboxCluster {
    return new OutboxCluster(this, 'Cluster', {
      ...stage.cluster,
      vpc,
      subnets,
      clients: [...functions.securityGroups, ...(functionsWithEgress?.securityGroups ?? [])],
      clusterIdentifier: `sealed-outbox-${stage.name}`,
      deletionProtection: stage.keepsData,
      breakGlassArn: stage.keepsData ? breakGlassArn : undefined,
      logRetention: stage.logRetention,
    });
  }
}
