import { ArnFormat, CfnOutput, CfnResource, Duration, Lazy, Stack, Tokenization } from 'aws-cdk-lib';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import { type Function as LambdaFunction, LayerVersion } from 'aws-cdk-lib/aws-lambda';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import type { IDatabaseCluster, IDatabaseInstance } from 'aws-cdk-lib/aws-rds';
import { Trigger } from 'aws-cdk-lib/triggers';
import { Construct } from 'constructs';
import { type Catalogue, catalogueRows } from '../../shared/events/index.ts';
import { authoritiesLayer } from './certificate-authorities.ts';
import { readinessOf } from './database-readiness.ts';
import { ContainerUser, type KeyUser } from './key-user.ts';
import { type FunctionDefaults, NodeFunction } from './node-function.ts';
import { giveClasses, type SealingAccess, type VaultClasses } from './sealing-access.ts';

/** Where a PostgreSQL is and how functions prove who they are. */
export interface DatabaseConnection {
  readonly host: string;
  readonly port: number;
  readonly name: string;
  readonly auth: DatabaseAuth;
  /** Where it is made by the same app: the migration waits for its instances, and for the rules that let its function in. */
  readonly database?: IDatabaseCluster | IDatabaseInstance;
}

export type DatabaseAuth =
  | {
      readonly kind: 'iam';
      /** `DbClusterResourceId` or `DbiResourceId`: the part of `rds-db:connect` that names the database. */
      readonly resourceId: string;
      /** File with the database's certificate authorities (PEM). Default: those of RDS in the stack's region. Lambda's Node.js does not know them. */
      readonly certificateAuthorities?: string;
    }
  /** For a database on this machine only: the functions refuse it for any other host. Ends up in the template. */
  | { readonly kind: 'password'; readonly password: string };

/** A login user of the database, the group roles that it is a member of, and the classes of sealed data that it works with. */
export interface DatabaseLogin {
  readonly user: string;
  readonly roles: readonly string[];
  /**
   * What it seals and opens. The function, or the role of a container, is given the keys of these classes in KMS, the login the roles of the vault that this needs,
   * for these classes only. Default: nothing.
   */
  readonly sealing?: SealingAccess | undefined;
}

/** A login as `functions/migrate` creates it. */
interface InstalledLogin {
  readonly user: string;
  readonly roles: readonly string[];
  readonly connections: number;
  readonly vault?: VaultClasses;
}

export interface OutboxDatabaseProps extends FunctionDefaults {
  readonly connection: DatabaseConnection;
  /**
   * The catalogue of event types (`defineCatalogue`): it is installed with the tables of outbox, inbox and vault. Where it is given, what an `Outbox` sends to is held
   * against it. Left out only for a `migrateEntry` of your own, and where `migrations` is `manual`.
   */
  readonly catalogue?: Catalogue;
  /** A function of your own that migrates and installs, as `functions/migrate`: its path. Default: the library's, with `catalogue`. */
  readonly migrateEntry?: string;
  /** Who migrates: owns the database, may create roles, is no superuser. */
  readonly migrator: string;
  /**
   * Connections that all functions of this database may hold together; below the server's `max_connections`, with room for people and for
   * what else uses it. What is given to {@link OutboxDatabase.connect} is counted against it. Default: 200.
   */
  readonly maxConnections?: number;
  /**
   * `trigger`: each deployment brings the database up to date before the functions that need it. `manual`: nothing that is deployed may change the
   * schema; the SQL comes from `npm run migrate -- --print`, and you run it before the deployment, with a tool of your own. Default: `trigger`.
   */
  readonly migrations?: 'trigger' | 'manual';
}

/** Two deployments at once, one of which waits for the other. */
const MIGRATOR_CONNECTIONS = 2;
/** A scheduled function on one connection, and one run that overlaps. */
const SCHEDULED_CONNECTIONS = 2;

/**
 * The outbox's database: its connection, its schema, and one login user per function.
 *
 * Migrations, the catalogue and the login users are installed by a trigger, whenever the migrate function changes (its bundle
 * holds the SQL and the catalogue), before any function that was given to {@link connect} is created or updated.
 *
 * @example
 * const database = new OutboxDatabase(this, 'Database', { connection, catalogue, migrator: 'sealed_migrator' });
 * database.connect(myFunction, { user: 'shop', roles: ['shop_writer', 'outbox_writer'] });
 */
export class OutboxDatabase extends Construct {
  /** None where `migrations` is `manual`. */
  readonly migrateFunction: LambdaFunction | undefined;
  /** Identity of the database cluster, which a copy of it does not have: relays refuse to work on one. None on this machine. */
  readonly cluster: string | undefined;
  /** Whether it is a database on this machine, as the local cloud's. */
  readonly isLocal: boolean;
  /** What is installed; undefined where a function of your own installs it, or nobody. */
  readonly catalogue: Catalogue | undefined;
  /** Of its `Outbox`, which says so: consumers and APIs of this database report under the same. Undefined: there is none yet. */
  installation: string | undefined;
  private readonly connection: DatabaseConnection;
  private readonly trigger: Trigger | undefined;
  private readonly certificateAuthorities: { readonly layer: LayerVersion; readonly file: string } | undefined;
  private readonly logins: InstalledLogin[] = [];
  private readonly maxConnections: number;

  constructor(scope: Construct, id: string, props: OutboxDatabaseProps) {
    super(scope, id);
    const { auth } = (this.connection = props.connection);
    this.maxConnections = props.maxConnections ?? 200;
    this.isLocal = auth.kind === 'password';
    this.cluster = auth.kind === 'iam' ? auth.resourceId : undefined;
    if (auth.kind === 'iam') {
      const { code, file } = authoritiesLayer(auth.certificateAuthorities, Stack.of(this).region);
      const description = 'Certificate authorities of the database';
      this.certificateAuthorities = {
        file,
        layer: new LayerVersion(this, 'CertificateAuthorities', { description, code }),
      };
    }
    this.catalogue = props.catalogue;
    if (props.migrations !== 'manual' && props.migrateEntry === undefined && props.catalogue === undefined) {
      throw new RangeError(
        `${this.node.path}: there is no catalogue to install. Give catalogue, or a migrateEntry of your own.`,
      );
    }
    const logins = Lazy.string({ produce: () => JSON.stringify(this.logins) });
    if (props.migrations === 'manual') {
      const description = 'For npm run migrate -- --print --logins';
      new CfnOutput(this, 'Logins', { value: logins, description });
      return;
    }
    // A large index may take minutes. Lambda ends at 15; what takes longer is made by hand before the deployment.
    const timeout = Duration.minutes(10);
    this.migrateFunction = new NodeFunction(this, 'Migrate', {
      ...props,
      entry: props.migrateEntry ?? { own: 'migrate' },
      serviceName: 'migrate',
      description: 'Installs migrations, login users and the catalogue of event types',
      timeout,
      environment: {
        DATABASE_LOGINS: logins,
        ...(this.cluster !== undefined && { OUTBOX_CLUSTER: this.cluster }),
      },
      beside: {
        directories: ['migrations'],
        files: this.catalogue && { 'catalogue.json': JSON.stringify(catalogueRows(this.catalogue)) },
      },
    });
    this.giveAccess(this.migrateFunction, props.migrator);
    this.trigger = new Trigger(this, 'MigrateNow', { handler: this.migrateFunction, timeout });
    const { database } = props.connection;
    if (database !== undefined) {
      this.trigger.node.addDependency(readinessOf(database, props.network?.securityGroups ?? []));
    }
    this.keepTriggerLogsFinite(props.logRetention ?? RetentionDays.ONE_MONTH);
  }

  /**
   * Lets `fn` connect as a user of its own. The user is created by the migration, which runs before `fn` is deployed.
   *
   * @param connections at once, of all sandboxes of `fn` together: how many there may be times the size of their pools. The server holds the
   * user to it. Default: 2, for a scheduled function with one.
   * @throws RangeError when the functions together may open more than `maxConnections`, and where `login.sealing` names no class or one that is none
   */
  connect(fn: LambdaFunction, login: DatabaseLogin, connections: number = SCHEDULED_CONNECTIONS): void {
    this.installLogin(fn, login, connections);
    this.giveAccess(fn, login.user);
    this.trigger?.executeBefore(fn);
  }

  private installLogin(by: KeyUser, { user, roles, sealing }: DatabaseLogin, connections: number): void {
    const given = sealing === undefined ? undefined : giveClasses(by, sealing);
    this.addLogin(
      given === undefined
        ? { user, roles, connections }
        : { user, roles: [...roles, ...given.roles], connections, vault: given.classes },
    );
  }

  private addLogin(login: InstalledLogin): void {
    if (this.logins.some(({ user }) => user === login.user)) {
      throw new RangeError(
        `${this.node.path}: two functions connect as ${login.user}. Give each a user of its own: the server tells them apart by it.`,
      );
    }
    this.logins.push(login);
    const sum = this.logins.reduce((total, it) => total + it.connections, MIGRATOR_CONNECTIONS);
    if (sum > this.maxConnections) {
      throw new RangeError(
        `${this.node.path}: the functions may open ${sum} connections, maxConnections is ${this.maxConnections}. ` +
          'Lower maxConcurrency or connections of a function, or raise maxConnections as far as the server allows.',
      );
    }
  }

  /**
   * Lets a task of ECS or whatever else has a role connect as a user of its own. Where it runs, the file of certificate authorities must be there, too; and
   * have it wait for the migration with `service.node.addDependency(database)`.
   *
   * ```ts
   * const environment = database.grantConnect(task.taskRole, { user: 'shop', roles: ['shop_writer', 'outbox_writer'] }, 20);
   * ```
   *
   * @param connections at once, of all that have this role together
   * @returns the variables that `databaseConfig` reads, except `DATABASE_CA_FILE`, and `AWS_REGION`, which Fargate sets; where `login.sealing` says so those of its keys, too
   * @throws RangeError when all together may open more than `maxConnections`, and where `login.sealing` names no class or one that is none
   */
  grantConnect(grantee: IGrantable, login: DatabaseLogin, connections: number): Record<string, string> {
    const container = new ContainerUser(this, login.user, grantee);
    this.installLogin(container, login, connections);
    return { ...this.allowLogin(grantee, login.user), ...container.environment };
  }

  /** The installation of its `Outbox`, whenever that is made; without one that of the stack of `scope`. */
  installationFor(scope: Construct): string {
    return Lazy.string({ produce: () => this.installation ?? Stack.of(scope).stackName });
  }

  /** CDK's own function behind every trigger of the stack has no log group, so Lambda would make one that keeps lines for ever. */
  private keepTriggerLogsFinite(retention: RetentionDays): void {
    const provider = Stack.of(this).node.tryFindChild('AWSCDK.TriggerCustomResourceProviderCustomResourceProvider');
    const handler = provider?.node.tryFindChild('Handler');
    if (!CfnResource.isCfnResource(handler))
      throw new Error(`${this.node.path}: CDK's trigger function is not where it was`);
    const { logGroupName } = new LogGroup(this, 'TriggerLogs', { retention });
    handler.addPropertyOverride('LoggingConfig', { LogGroup: logGroupName });
  }

  private giveAccess(fn: LambdaFunction, user: string): void {
    const environment = this.allowLogin(fn, user);
    if (this.certificateAuthorities !== undefined) {
      const { layer, file } = this.certificateAuthorities;
      environment['DATABASE_CA_FILE'] = `/opt/${file}`;
      fn.addLayers(layer);
    }
    for (const [key, value] of Object.entries(environment)) fn.addEnvironment(key, value);
  }

  /** @returns the variables that `databaseConfig` reads, but for the certificates. */
  private allowLogin(grantee: IGrantable, user: string): Record<string, string> {
    const { host, port, name, auth } = this.connection;
    const environment: Record<string, string> = {
      DATABASE_HOST: host,
      DATABASE_PORT: Tokenization.stringifyNumber(port),
      DATABASE_NAME: name,
      DATABASE_USER: user,
      DATABASE_AUTH: auth.kind,
    };
    if (auth.kind === 'password') return { ...environment, DATABASE_PASSWORD: auth.password };
    const resource = Stack.of(this).formatArn({
      service: 'rds-db',
      resource: 'dbuser',
      resourceName: `${auth.resourceId}/${user}`,
      arnFormat: ArnFormat.COLON_RESOURCE_NAME,
    });
    Grant.addToPrincipal({ grantee, actions: ['rds-db:connect'], resourceArns: [resource] }).assertSuccess();
    return environment;
  }
}
