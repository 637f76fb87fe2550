import { Duration, SecretValue, Validations } from 'aws-cdk-lib';
import { type ISecurityGroup, type ISubnet, type IVpc, Port, SecurityGroup } from 'aws-cdk-lib/aws-ec2';
import { type IKey, Key } from 'aws-cdk-lib/aws-kms';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import {
  AuroraPostgresEngineVersion,
  CaCertificate,
  type CfnDBCluster,
  ClusterInstance,
  Credentials,
  DatabaseCluster,
  DatabaseClusterEngine,
  DatabaseInsightsMode,
  PerformanceInsightRetention,
  type ServerlessV2ClusterInstanceProps,
} from 'aws-cdk-lib/aws-rds';
import { Construct } from 'constructs';
import { denyDeletion } from './key-deletion.ts';
import type { DatabaseConnection } from './outbox-database.ts';

export interface OutboxClusterProps {
  readonly vpc: IVpc;
  /** In two zones at least. */
  readonly subnets: readonly ISubnet[];
  /** Who may connect: security groups of functions. */
  readonly clients: readonly ISecurityGroup[];
  /**
   * Name of the cluster, and of its log groups. By it the groups exist, with a retention, before the cluster writes; and a change that would replace
   * the cluster fails instead.
   */
  readonly clusterIdentifier: string;
  /** Aurora capacity units, of 2 GiB each; at 0 a relay that polls would keep it awake. Default: 0.5 to 4. */
  readonly capacity?: { readonly min: number; readonly max: number };
  /** A second instance in another zone that takes over within a minute, and costs as much as the first. Default: false. */
  readonly reader?: boolean;
  /** How far back it can be restored, 14 to 35 days. Default: 14 days. */
  readonly backupRetention?: Duration;
  /** Default: true. */
  readonly deletionProtection?: boolean;
  /** Database Insights: `advanced` keeps 15 months and costs by capacity unit, `standard` 7 days. Default: `standard`. */
  readonly insights?: 'standard' | 'advanced';
  /** Default: one month. */
  readonly logRetention?: RetentionDays;
  /** Encrypts storage, backups and insights. Default: a new key, rotated yearly, which with `deletionProtection` can be neither disabled nor deleted. */
  readonly encryptionKey?: IKey;
  /** ARN of the role or user that alone may disable or delete the new key all the same. Default: nobody. */
  readonly breakGlassArn?: string | undefined;
  /** Default: `sealed_outbox`. */
  readonly databaseName?: string;
}

/** The cluster's master user, who migrates. Its proof is an IAM token, as everybody's: there is no password to keep. */
export const MIGRATOR = 'sealed_migrator';

const PORT = 5432;
/** `postgresql`: the server's own; `iam-db-auth-error`: why a token was refused. */
const LOGS = ['postgresql', 'iam-db-auth-error'] as const;
/** What Aurora allows for each capacity unit of the maximum: 1 has 189 (2 GiB less what the server needs, by 9.5 MB). */
const CONNECTIONS_PER_UNIT = 189;

/**
 * Server settings. Nothing that a person wrote gets into the logs: parameters of statements stay out, and so do statements that failed and the details of errors, where
 * PostgreSQL quotes rows. A slow statement is logged as it was sent, without its parameters: values belong into these.
 */
const PARAMETERS = {
  'rds.force_ssl': '1',
  // A session that holds locks and does nothing is a sandbox that was frozen or killed.
  idle_in_transaction_session_timeout: '60000',
  // How soon a client that is gone is noticed: after 60 s of silence, by three probes.
  tcp_keepalives_idle: '60',
  tcp_keepalives_interval: '10',
  tcp_keepalives_count: '3',
  log_statement: 'none',
  log_min_error_statement: 'panic',
  log_min_duration_statement: '1000',
  log_lock_waits: '1',
  log_autovacuum_min_duration: '10000',
  log_parameter_max_length: '0',
  log_parameter_max_length_on_error: '0',
  log_error_verbosity: 'terse',
} as const;

/** Aurora PostgreSQL 17, Serverless v2: encrypted with a key of yours, reached by TLS and with IAM tokens only. */
export class OutboxCluster extends Construct {
  readonly cluster: DatabaseCluster;
  readonly encryptionKey: IKey;
  readonly securityGroup: SecurityGroup;
  /** For {@link OutboxDatabase}. */
  readonly connection: DatabaseConnection;
  /** What functions may hold of its `max_connections` together: a tenth is left to people and to the server. */
  readonly maxConnections: number;

  constructor(scope: Construct, id: string, props: OutboxClusterProps) {
    super(scope, id);
    const { vpc, subnets, clients, reader = false, deletionProtection = true, insights = 'standard' } = props;
    const { min, max } = props.capacity ?? { min: 0.5, max: 4 };
    const backupRetention = props.backupRetention ?? Duration.days(14);
    const days = backupRetention.toDays();
    const zones = [...new Set(subnets.map(({ availabilityZone }) => availabilityZone))];
    this.check(days >= 14 && days <= 35, `backupRetention is ${days} days. Give 14 to 35.`);
    this.check(min >= 0.5 && max >= min, `capacity is ${min} to ${max}. Give 0.5 or more, and a maximum not below it.`);
    this.check(zones.length >= 2, 'the subnets lie in one zone. Aurora needs two.');
    this.maxConnections = Math.floor(Math.min(max * CONNECTIONS_PER_UNIT, min < 1 ? 2000 : 5000) * 0.9);

    this.encryptionKey = props.encryptionKey ?? this.createKey(props.clusterIdentifier, deletionProtection, props);
    this.securityGroup = new SecurityGroup(this, 'SecurityGroup', {
      vpc,
      description: 'Database: from functions',
      allowAllOutbound: false,
    });
    for (const client of clients) {
      this.securityGroup.addIngressRule(client, Port.tcp(PORT), 'Functions');
      client.addEgressRule(this.securityGroup, Port.tcp(PORT), 'Database');
    }
    const logGroups = LOGS.map(
      (name) =>
        new LogGroup(this, `Logs-${name}`, {
          logGroupName: `/aws/rds/cluster/${props.clusterIdentifier}/${name}`,
          retention: props.logRetention ?? RetentionDays.ONE_MONTH,
        }),
    );

    const databaseName = props.databaseName ?? 'sealed_outbox';
    const watched = {
      enablePerformanceInsights: true,
      performanceInsightEncryptionKey: this.encryptionKey,
      performanceInsightRetention:
        insights === 'advanced' ? PerformanceInsightRetention.MONTHS_15 : PerformanceInsightRetention.DEFAULT,
    };
    const instance = (zone: string | undefined): ServerlessV2ClusterInstanceProps => ({
      ...(zone !== undefined && { availabilityZone: zone }),
      caCertificate: CaCertificate.RDS_CA_RSA2048_G1,
      publiclyAccessible: false,
      ...watched,
    });
    this.cluster = new DatabaseCluster(this, 'Cluster', {
      engine: DatabaseClusterEngine.auroraPostgres({ version: AuroraPostgresEngineVersion.VER_17_9 }),
      clusterIdentifier: props.clusterIdentifier,
      defaultDatabaseName: databaseName,
      // Only its name is used: the password is taken out below.
      credentials: Credentials.fromPassword(MIGRATOR, SecretValue.unsafePlainText('none')),
      iamAuthentication: true,
      port: PORT,
      vpc,
      vpcSubnets: { subnets: [...subnets] },
      securityGroups: [this.securityGroup],
      serverlessV2MinCapacity: min,
      serverlessV2MaxCapacity: max,
      writer: ClusterInstance.serverlessV2('Writer', instance(zones[0])),
      // Scaled with the writer: it is then as large when it has to take over, and the first in the order.
      readers: reader ? [ClusterInstance.serverlessV2('Reader', { ...instance(zones[1]), scaleWithWriter: true })] : [],
      storageEncrypted: true,
      storageEncryptionKey: this.encryptionKey,
      backup: { retention: backupRetention, preferredWindow: '01:00-02:00' },
      preferredMaintenanceWindow: 'sun:02:30-sun:03:30',
      copyTagsToSnapshot: true,
      deletionProtection,
      parameters: PARAMETERS,
      cloudwatchLogsExports: [...LOGS],
      ...watched,
      databaseInsightsMode: insights === 'advanced' ? DatabaseInsightsMode.ADVANCED : DatabaseInsightsMode.STANDARD,
    });
    for (const group of logGroups) this.cluster.node.addDependency(group);
    const resource = this.cluster.node.defaultChild as CfnDBCluster;
    resource.masterUserAuthenticationType = 'iam-db-auth';
    resource.addPropertyDeletionOverride('MasterUserPassword');
    if (!deletionProtection) {
      Validations.of(this.cluster).acknowledge({
        id: 'AwsSolutions-RDS10',
        reason: 'This stage is disposable: its stack is deleted together with what is in it.',
      });
    }
    this.connection = {
      host: this.cluster.clusterEndpoint.hostname,
      port: PORT,
      name: databaseName,
      auth: { kind: 'iam', resourceId: this.cluster.clusterResourceIdentifier },
      database: this.cluster,
    };
  }

  /** Without it neither the database nor any backup of it opens. Grants stay allowed: RDS makes them for itself. */
  private createKey(name: string, isProtected: boolean, { breakGlassArn }: OutboxClusterProps): Key {
    const key = new Key(this, 'Key', {
      description: `Storage, backups and insights of ${name}`,
      enableKeyRotation: true,
      pendingWindow: Duration.days(isProtected ? 30 : 7),
    });
    if (isProtected) denyDeletion(key, this.node.path, breakGlassArn);
    return key;
  }

  private check(holds: boolean, complaint: string): void {
    if (!holds) throw new RangeError(`${this.node.path}: ${complaint}`);
  }
}
