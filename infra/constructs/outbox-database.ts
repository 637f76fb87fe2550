import { basename, dirname } from 'node:path';
import { ArnFormat, CfnResource, Duration, IgnoreMode, Lazy, Stack } from 'aws-cdk-lib';
import { PolicyStatement } from 'aws-cdk-lib/aws-iam';
import { Code, type Function as LambdaFunction, LayerVersion } from 'aws-cdk-lib/aws-lambda';
import { LogGroup, RetentionDays } from 'aws-cdk-lib/aws-logs';
import { Trigger } from 'aws-cdk-lib/triggers';
import { Construct } from 'constructs';
import { type FunctionDefaults, NodeFunction } from './node-function.ts';

/** Where an existing PostgreSQL is and how functions prove who they are. */
export interface DatabaseConnection {
  readonly host: string;
  readonly port: number;
  readonly name: string;
  readonly auth: DatabaseAuth;
}

export type DatabaseAuth =
  | {
      readonly kind: 'iam';
      /** `DbClusterResourceId` or `DbiResourceId`: the part of `rds-db:connect` that names the database. */
      readonly resourceId: string;
      /** File with the region's RDS certificate authorities (PEM). Lambda's Node.js does not know them. */
      readonly certificateAuthorities: string;
    }
  /** For a database on this machine only: the functions refuse it for any other host. Ends up in the template. */
  | { readonly kind: 'password'; readonly password: string };

/** A login user of the database and the group roles that it is a member of. */
export interface DatabaseLogin {
  readonly user: string;
  readonly roles: readonly string[];
}

export interface OutboxDatabaseProps extends FunctionDefaults {
  readonly connection: DatabaseConnection;
  /** Path, from the repository's root, of the function that migrates and installs the catalogue of event types. */
  readonly migrateEntry: string;
  /** Who migrates: owns the database, may create roles, is no superuser. */
  readonly migrator: string;
}

/**
 * The outbox's database: its connection, its schema, and one login user per function.
 *
 * Migrations, the catalogue and the login users are installed by a trigger, whenever the migrate function changes (its bundle
 * holds the SQL and the catalogue), before any function that was given to {@link connect} is created or updated.
 *
 * @example
 * const database = new OutboxDatabase(this, 'Database', { connection, migrateEntry: 'functions/migrate/index.ts', migrator: 'sealed_migrator' });
 * database.connect(myFunction, { user: 'shop', roles: ['shop_writer', 'outbox_writer'] });
 */
export class OutboxDatabase extends Construct {
  readonly migrateFunction: LambdaFunction;
  private readonly connection: DatabaseConnection;
  private readonly trigger: Trigger;
  private readonly certificateAuthorities: LayerVersion | undefined;
  private readonly logins: DatabaseLogin[] = [];

  constructor(scope: Construct, id: string, props: OutboxDatabaseProps) {
    super(scope, id);
    const { auth } = (this.connection = props.connection);
    if (auth.kind === 'iam') {
      const file = auth.certificateAuthorities;
      this.certificateAuthorities = new LayerVersion(this, 'CertificateAuthorities', {
        description: 'Certificate authorities of the database',
        code: Code.fromAsset(dirname(file), { exclude: ['*', `!${basename(file)}`], ignoreMode: IgnoreMode.GIT }),
      });
    }
    // A large index may take minutes. Lambda ends at 15; what takes longer is made by hand before the deployment.
    const timeout = Duration.minutes(10);
    this.migrateFunction = new NodeFunction(this, 'Migrate', {
      ...props,
      entry: props.migrateEntry,
      serviceName: 'migrate',
      description: 'Installs migrations, login users and the catalogue of event types',
      timeout,
      environment: { DATABASE_LOGINS: Lazy.string({ produce: () => JSON.stringify(this.logins) }) },
      directories: ['migrations'],
    });
    this.giveAccess(this.migrateFunction, props.migrator);
    this.trigger = new Trigger(this, 'MigrateNow', { handler: this.migrateFunction, timeout });
    this.keepTriggerLogsFinite(props.logRetention ?? RetentionDays.ONE_MONTH);
  }

  /** Lets `fn` connect as a user of its own. The user is created by the migration, which runs before `fn` is deployed. */
  connect(fn: LambdaFunction, login: DatabaseLogin): void {
    this.logins.push(login);
    this.giveAccess(fn, login.user);
    this.trigger.executeBefore(fn);
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
    const { host, port, name, auth } = this.connection;
    const environment: Record<string, string> = {
      DATABASE_HOST: host,
      DATABASE_PORT: String(port),
      DATABASE_NAME: name,
      DATABASE_USER: user,
      DATABASE_AUTH: auth.kind,
    };
    if (auth.kind === 'password') {
      environment['DATABASE_PASSWORD'] = auth.password;
    } else {
      environment['DATABASE_CA_FILE'] = `/opt/${basename(auth.certificateAuthorities)}`;
      const resourceName = `${auth.resourceId}/${user}`;
      fn.addToRolePolicy(
        new PolicyStatement({
          actions: ['rds-db:connect'],
          resources: [
            Stack.of(this).formatArn({
              service: 'rds-db',
              resource: 'dbuser',
              resourceName,
              arnFormat: ArnFormat.COLON_RESOURCE_NAME,
            }),
          ],
        }),
      );
    }
    if (this.certificateAuthorities !== undefined) fn.addLayers(this.certificateAuthorities);
    for (const [key, value] of Object.entries(environment)) fn.addEnvironment(key, value);
  }
}
