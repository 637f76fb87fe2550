import { CfnOutput, Duration, RemovalPolicies, Stack, type StackProps } from 'aws-cdk-lib';
import type { IEventBus } from 'aws-cdk-lib/aws-events';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { QueryDefinition, QueryString } from 'aws-cdk-lib/aws-logs';
import type { ITopic } from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';
import * as sample from '../../functions/sample/catalogue/consumers.ts';
import { type Classes, type DeclaredIndex, defineErasable } from '../../shared/sealing/index.ts';
import { SAMPLE_FUNCTIONS } from '../functions.ts';
import {
  ConsumerAlarms,
  DatabaseAlarms,
  type DatabaseConnection,
  type EventArchive,
  EventApi,
  EventConsumer,
  type EventQueue,
  FunctionAlarms,
  type ISealingKeys,
  Janitor,
  MIGRATOR,
  Operator,
  Outbox,
  OutboxAlarms,
  OutboxDashboard,
  OutboxDatabase,
  type OutboxDatabaseProps,
  type OutboxNetwork,
  type ScalingCluster,
  SealingAlarms,
} from '../index.ts';
import type { Stage } from '../stages.ts';

export interface ServiceStackProps extends StackProps {
  readonly stage: Stage;
  readonly database: DatabaseConnection;
  /** What functions may hold of the server's connections together. Default: as `OutboxDatabase`. */
  readonly maxConnections: number | undefined;
  /** The cluster that the database is in, where it is one of ours. */
  readonly cluster: ScalingCluster | undefined;
  /** Where functions run. Undefined: outside of a VPC. */
  readonly network: OutboxNetwork | undefined;
  readonly migrations: OutboxDatabaseProps['migrations'];
  readonly ledgerQueue: EventQueue;
  readonly analyticsQueue: EventQueue;
  readonly notificationsQueue: EventQueue;
  readonly bus: IEventBus;
  /** Where the sample's mails are sent to, without a slash at the end. */
  readonly mailProviderUrl: string;
  /** What the sample API is told about its callers. */
  readonly apiEnvironment: Readonly<Record<string, string>>;
  readonly alarmTopic: ITopic;
  /** Of the vault in the database. */
  readonly keys: ISealingKeys;
  /** Where events go before they are deleted. Without one they are deleted only. */
  readonly archive: EventArchive | undefined;
}

/** Classes of personal data in the sample. */
const CLASSES = ['contact', 'tax', 'bank'];
const CUSTOMER = { kind: 'customer', key: 'id' } as const;
/** What the API clears of a customer who is erased; a test holds it against the sample. */
const ERASABLE = defineErasable([
  {
    ...CUSTOMER,
    table: 'sample.customer',
    subject: 'id',
    class: 'contact',
    columns: ['name', 'email', 'email_index', 'address'],
  },
  { ...CUSTOMER, table: 'sample.customer', subject: 'id', class: 'tax', columns: ['tax_id'] },
  { ...CUSTOMER, table: 'sample.customer', subject: 'id', class: 'bank', columns: ['iban'] },
  { ...CUSTOMER, table: 'sample.invoice', subject: 'customer_id', class: 'contact', columns: ['note', 'descriptions'] },
]);

/** When keys of the classes are destroyed, as the API has it; a test holds it against the sample. */
const ERASED: Classes = {
  contact: { erase: 'onRequest' },
  tax: { erase: { after: 3653 } },
  bank: { erase: { after: 3653 } },
};
/** By which the API finds customers; a test holds it against the sample. */
const INDEXES: readonly DeclaredIndex[] = [
  {
    name: 'customer-email',
    class: 'contact',
    normaliser: 'email',
    columns: [{ store: 'invoices', table: 'sample.customer', primaryKey: 'id', sealed: 'email', index: 'email_index' }],
  },
];

/** What runs: the outbox, the sample service that writes invoices, the ledger, analytics and notifications that read them, and the alarms. */
export class ServiceStack extends Stack {
  constructor(scope: Construct, id: string, props: ServiceStackProps) {
    super(scope, id, props);
    const { stage, keys, network, maxConnections, ledgerQueue, analyticsQueue, notificationsQueue } = props;
    const defaults = { logRetention: stage.logRetention, network: network?.functions };
    // Whoever is given keys looks into the log of erasures.
    const withS3 = { ...defaults, network: network?.functionsWithS3 };

    const database = new OutboxDatabase(this, 'Database', {
      ...defaults,
      connection: props.database,
      migrateEntry: SAMPLE_FUNCTIONS.migrate,
      migrator: MIGRATOR,
      migrations: props.migrations,
      ...(maxConnections !== undefined && { maxConnections }),
    });
    const outbox = new Outbox(this, 'Outbox', {
      ...defaults,
      database,
      destinations: { ledger: ledgerQueue, analytics: props.bus, notifications: notificationsQueue },
      mode: stage.relayMode,
    });
    const ledger = new EventConsumer(this, 'Ledger', {
      ...withS3,
      consumer: sample.ledger,
      entry: SAMPLE_FUNCTIONS.ledger,
      source: ledgerQueue,
      database,
      login: {
        user: 'sealed_ledger',
        roles: ['sample_ledger', 'inbox_consumer'],
        sealing: { keys, opens: ['contact'] },
      },
      timeout: stage.consumerTimeout,
    });
    const analytics = new EventConsumer(this, 'Analytics', {
      ...defaults,
      consumer: sample.analytics,
      entry: SAMPLE_FUNCTIONS.analytics,
      source: analyticsQueue,
      database,
      login: { user: 'sealed_analytics', roles: ['sample_analytics', 'inbox_consumer'] },
      timeout: stage.consumerTimeout,
    });
    const notifications = new EventConsumer(this, 'Notifications', {
      ...defaults,
      // A mail provider is on the internet, or else reached from inside the VPC.
      network: network?.functionsWithEgress ?? network?.functionsWithS3,
      consumer: sample.notifications,
      entry: SAMPLE_FUNCTIONS.notifications,
      source: notificationsQueue,
      database,
      login: {
        user: 'sealed_notifications',
        roles: ['sample_notifications', 'inbox_consumer'],
        sealing: { keys, opens: ['contact'] },
      },
      timeout: stage.consumerTimeout,
      environment: { MAIL_PROVIDER_URL: props.mailProviderUrl },
    });
    const invoices = new EventApi(this, 'Invoices', {
      ...withS3,
      entry: SAMPLE_FUNCTIONS.api,
      routes: [
        'POST /invoices',
        'POST /invoices/search',
        'GET /invoices/{id}',
        'POST /invoices/{id}/payments',
        'DELETE /customers/{id}',
        'GET /openapi.json',
      ],
      // Whoever may search could try addresses, and whoever may erase, erase everybody.
      limits: {
        'POST /invoices/search': { perSecond: 5, burst: 10 },
        'DELETE /customers/{id}': { perSecond: 1, burst: 5 },
      },
      database,
      login: {
        user: 'sealed_api',
        roles: ['sample_api', 'sample_eraser', 'outbox_writer'],
        sealing: { keys, seals: CLASSES, indexes: { 'customer-email': 'contact' }, erases: true },
      },
      access: stage.apiAccess,
      environment: { ...props.apiEnvironment, ERASURE_DELAY_SECONDS: String(stage.erasureDelay.toSeconds()) },
    });
    const janitor = new Janitor(this, 'Janitor', {
      ...withS3,
      installation: outbox.installation,
      database,
      keep: stage.retention,
      archive: props.archive,
      // A client that repeats a request does so within minutes.
      also: { 'sample.prune_idempotency': Duration.days(7) },
      roles: ['sample_janitor', 'sample_eraser'],
      erasable: ERASABLE,
      indexes: INDEXES,
      sealing: { keys, rotates: CLASSES, erases: true },
    });
    const queues = { ledger: ledgerQueue, analytics: analyticsQueue, notifications: notificationsQueue };
    const operator = new Operator(this, 'Operator', {
      ...withS3,
      installation: outbox.installation,
      database,
      queues,
      archive: props.archive,
      erases: {
        keys,
        classes: ERASED,
        erasable: ERASABLE,
        roles: ['sample_eraser'],
        keptSince: 'sample.kept_since',
        delay: stage.erasureDelay,
      },
    });
    const functions = {
      relay: outbox.relayFunction,
      monitor: outbox.monitorFunction,
      janitor: janitor.function,
      operator: operator.function,
      ledger: ledger.function,
      analytics: analytics.function,
      notifications: notifications.function,
      api: invoices.function,
    };
    this.watch({ ...props, outbox, janitor, queues, consumers: [ledger, analytics, notifications], functions });

    // Where a runbook says "look for errors", this is the place.
    const logged = [
      ...(database.migrateFunction === undefined ? [] : [database.migrateFunction]),
      ...Object.values(functions),
    ];
    new QueryDefinition(this, 'Errors', {
      queryDefinitionName: `${this.stackName}/errors`,
      logGroups: logged.map((fn) => fn.logGroup),
      queryString: new QueryString({
        fields: ['@timestamp', 'service', 'message', 'error.name', 'error.message'],
        filterStatements: ['level in ["ERROR", "WARN"] or @message like /Task timed out|Runtime exited/'],
        sort: '@timestamp desc',
        limit: 100,
      }),
    });

    const outputs = {
      ApiUrl: invoices.url,
      ApiId: invoices.api.apiId,
      ApiFunctionName: invoices.function.functionName,
      AnalyticsFunctionName: analytics.function.functionName,
      JanitorFunctionName: janitor.function.functionName,
      LedgerFunctionName: ledger.function.functionName,
      ...(database.migrateFunction !== undefined && { MigrateFunctionName: database.migrateFunction.functionName }),
      MonitorFunctionName: outbox.monitorFunction.functionName,
      MonitorScheduleName: outbox.monitorSchedule.scheduleName,
      NotificationsFunctionName: notifications.function.functionName,
      OperatorFunctionName: operator.function.functionName,
      RelayFunctionName: outbox.relayFunction.functionName,
      RelayScheduleName: outbox.relaySchedule.scheduleName,
    };
    for (const [name, value] of Object.entries(outputs)) new CfnOutput(this, name, { value });

    if (!stage.keepsData) RemovalPolicies.of(this).destroy();
  }

  private watch({ stage, alarmTopic: topic, cluster, outbox, janitor, queues, functions, ...props }: Watched): void {
    const { installation } = outbox;
    const { period, oldestPendingAge, relaySilence, ...own } = stage.alarms;
    const consumers = props.consumers.map(({ consumer }) => consumer);
    const common = { installation, topic, period };
    const alarms = [
      new OutboxAlarms(this, 'OutboxAlarms', {
        ...common,
        ...own.outbox,
        oldestPendingAge,
        relaySilence,
        outbox,
        janitor,
        queues,
        consumers,
      }),
      new ConsumerAlarms(this, 'ConsumerAlarms', { ...common, ...own.consumers, queues, consumers }),
      new FunctionAlarms(this, 'FunctionAlarms', { installation, topic, ...own.functions, functions }),
      new DatabaseAlarms(this, 'DatabaseAlarms', { ...common, ...own.database, cluster }),
      new SealingAlarms(this, 'SealingAlarms', { ...common, ...own.sealing, janitor }),
    ].flatMap((one) => one.alarms);
    new OutboxDashboard(this, 'Dashboard', { outbox, alarms, queues, consumers, functions, janitor, cluster });
  }
}

interface Watched extends Pick<ServiceStackProps, 'stage' | 'alarmTopic' | 'cluster'> {
  readonly outbox: Outbox;
  readonly janitor: Janitor;
  readonly queues: Readonly<Record<string, EventQueue>>;
  readonly consumers: readonly EventConsumer[];
  readonly functions: Readonly<Record<string, LambdaFunction>>;
}
