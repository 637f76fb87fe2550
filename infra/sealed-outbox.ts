import { type App, type Environment, Tags } from 'aws-cdk-lib';
import { SealedOutboxError } from '../shared/errors/index.ts';
import { Metric } from 'aws-cdk-lib/aws-cloudwatch';
import type { DatabaseConnection, OutboxDatabaseProps, ScalingCluster } from './index.ts';
import type { NetworkSetting } from './network-setting.ts';
import type { RestoredCluster } from './restored-cluster-setting.ts';
import { DataStack } from './stacks/data-stack.ts';
import { ServiceStack } from './stacks/service-stack.ts';
import type { Stage } from './stages.ts';

export interface Installation {
  readonly data: DataStack;
  readonly service: ServiceStack;
}

/** What an installation is given from outside. */
export interface Given {
  /** A database that is there already. Undefined: the data stack makes an Aurora cluster. */
  readonly database?: DatabaseConnection | undefined;
  /** The cluster that functions connect to in place of the one that the data stack has made. Undefined: that one. */
  readonly restoredCluster?: RestoredCluster | undefined;
  /** The VPC that functions run in, and the cluster. Undefined: functions run outside of a VPC. */
  readonly network?: NetworkSetting | undefined;
  /** Where the sample's mails are sent to, without a slash at the end. */
  readonly mailProviderUrl: string;
  /** What the sample API is told about its callers. */
  readonly apiEnvironment: Readonly<Record<string, string>>;
  /** ARN of the role or user that alone may disable or delete the KMS key. Undefined: nobody. */
  readonly breakGlassArn?: string | undefined;
  readonly migrations?: OutboxDatabaseProps['migrations'];
  /** Account and region, where they are known. */
  readonly env?: Environment;
}

/** There is neither a database nor a way to make one. Code `DATABASE_MISSING`. */
class DatabaseMissingError extends SealedOutboxError {
  constructor(stage: string) {
    super('DATABASE_MISSING', `Stage ${stage} makes no database and none was given. Nothing was synthesised.`);
  }
}

/**
 * Both stacks of a stage: data, which is kept, and service, which changes with every version.
 *
 * @throws DatabaseMissingError (`DATABASE_MISSING`)
 */
export function sealedOutbox(app: App, stage: Stage, given: Given): Installation {
  const name = `sealed-outbox-${stage.name}`;
  const data = new DataStack(app, 'Data', {
    stackName: `${name}-data`,
    description: 'Sealed Outbox: network, database, queues, bus, topics, keys',
    terminationProtection: stage.keepsData,
    env: given.env,
    stage,
    breakGlassArn: given.breakGlassArn,
    network: given.network,
    database: given.database,
  });
  const database = given.database ?? connectionTo(data.cluster?.connection, given.restoredCluster);
  if (database === undefined) throw new DatabaseMissingError(stage.name);
  const service = new ServiceStack(app, 'Service', {
    stackName: `${name}-service`,
    description: 'Sealed Outbox: functions, schedules, API and alarms',
    // It holds no data, and prod's API, relay and alarms all the same.
    terminationProtection: stage.keepsData,
    env: given.env,
    stage,
    database,
    maxConnections: data.cluster?.maxConnections,
    cluster: given.restoredCluster === undefined ? data.cluster?.cluster : capacityOf(given.restoredCluster),
    network: data.network,
    migrations: given.migrations,
    ledgerQueue: data.ledgerQueue,
    analyticsQueue: data.analyticsQueue,
    notificationsQueue: data.notificationsQueue,
    bus: data.bus,
    mailProviderUrl: given.mailProviderUrl,
    apiEnvironment: given.apiEnvironment,
    alarmTopic: data.alarmTopic,
    keys: data.keys,
    archive: data.archive,
  });
  Tags.of(app).add('sealed-outbox:stage', stage.name);
  return { data, service };
}

/** In the network of the cluster that it was made out of, with its logins and its name. */
function connectionTo(
  own: DatabaseConnection | undefined,
  restored: RestoredCluster | undefined,
): DatabaseConnection | undefined {
  if (own === undefined || restored === undefined) return own;
  return { ...own, host: restored.host, auth: { kind: 'iam', resourceId: restored.resourceId } };
}

/** What alarms and dashboard read of a cluster that is in no template. The first label of its endpoint is its name. */
function capacityOf({ host }: RestoredCluster): ScalingCluster {
  const [name = ''] = host.split('.');
  return {
    metricACUUtilization: (props) =>
      new Metric({
        namespace: 'AWS/RDS',
        metricName: 'ACUUtilization',
        dimensionsMap: { DBClusterIdentifier: name },
        ...props,
      }),
  };
}
