import { Duration, Stack, type StackProps } from 'aws-cdk-lib';
import { SecurityGroup, SubnetType, Vpc } from 'aws-cdk-lib/aws-ec2';
import { ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Runtime } from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction, OutputFormat } from 'aws-cdk-lib/aws-lambda-nodejs';
import {
  AuroraPostgresEngineVersion,
  ClusterInstance,
  DatabaseCluster,
  DatabaseClusterEngine,
} from 'aws-cdk-lib/aws-rds';
import { Topic } from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';
import { connectionTo, EventConsumer, EventQueue, Outbox, OutboxAlarms, OutboxDatabase } from 'sealed-outbox/infra';
import * as shop from '../src/catalogue.ts';

/** A shop that was there before: its network, its cluster, its function. Below the line, what the outbox adds. */
export class ShopStack extends Stack {
  constructor(scope: Construct, id: string, props?: StackProps) {
    super(scope, id, props);
    const vpc = new Vpc(this, 'Vpc', { maxAzs: 2, natGateways: 1 });
    const cluster = new DatabaseCluster(this, 'Cluster', {
      vpc,
      engine: DatabaseClusterEngine.auroraPostgres({ version: AuroraPostgresEngineVersion.VER_17_4 }),
      writer: ClusterInstance.serverlessV2('Writer'),
      iamAuthentication: true,
      defaultDatabaseName: 'shop',
    });
    const group = new SecurityGroup(this, 'Functions', { vpc });
    cluster.connections.allowDefaultPortFrom(group);
    const checkout = new NodejsFunction(this, 'Checkout', {
      entry: 'src/checkout.ts',
      runtime: Runtime.NODEJS_24_X,
      vpc,
      securityGroups: [group],
      bundling: { format: OutputFormat.ESM, banner: REQUIRE },
    });

    // ---- The outbox ----
    const network = {
      vpc,
      subnets: vpc.selectSubnets({ subnetType: SubnetType.PRIVATE_WITH_EGRESS }).subnets,
      securityGroups: [group],
    };
    const database = new OutboxDatabase(this, 'Database', {
      network,
      connection: connectionTo(cluster, { databaseName: 'shop' }),
      catalogue: shop.definition,
      migrator: 'shop_migrator',
    });
    const timeout = Duration.seconds(30);
    const shipping = new EventQueue(this, 'ShippingQueue', { consumerTimeout: timeout });
    const outbox = new Outbox(this, 'Outbox', { network, database, destinations: { shipping } });
    outbox.grantAppend(checkout, { user: 'shop_checkout_fn', roles: ['shop_checkout'] }, 20);
    const consumer = new EventConsumer(this, 'Shipping', {
      network,
      consumer: shop.shipping,
      entry: 'src/shipping.ts',
      source: shipping,
      database,
      login: { user: 'shop_shipping_fn', roles: ['shop_shipping', 'inbox_consumer'] },
      timeout,
    });
    const topic = new Topic(this, 'AlarmTopic', { enforceSSL: true });
    // A policy of one's own takes the place of SNS's, which lets every alarm of the account publish.
    topic.grantPublish(
      new ServicePrincipal('cloudwatch.amazonaws.com', {
        conditions: { StringEquals: { 'aws:SourceAccount': this.account } },
      }),
    );
    new OutboxAlarms(this, 'Alarms', {
      outbox,
      queues: { shipping },
      consumers: [consumer.consumer],
      topic,
    });
  }
}

/** pg is CommonJS and calls require() for Node's own modules; an ES module has none. */
const REQUIRE = "import{createRequire}from'node:module';const require=createRequire(import.meta.url);";
