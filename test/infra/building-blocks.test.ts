import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { App, Duration, Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { EventBus } from 'aws-cdk-lib/aws-events';
import { Role, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { DatabaseCluster, DatabaseInstance } from 'aws-cdk-lib/aws-rds';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { type IQueue, Queue } from 'aws-cdk-lib/aws-sqs';
import { describe, expect, it } from 'vitest';
import {
  connectionTo,
  ConsumerAlarms,
  type DatabaseConnection,
  EventApi,
  EventConsumer,
  type EventConsumerProps,
  ErasureLog,
  EventQueue,
  Janitor,
  Operator,
  Outbox,
  OutboxAlarms,
  OutboxDatabase,
  type OutboxDatabaseProps,
  type OutboxProps,
  SealingKeys,
} from '../../infra/index.ts';
import { NodeFunction } from '../../infra/constructs/node-function.ts';
import { declareConsumer, defineCatalogue } from '../../shared/events/index.ts';
import { emptyApp, type Resource, variablesOf } from './synthesised.ts';

const env = { account: '123456789012', region: 'eu-central-1' };
const catalogue = defineCatalogue({
  source: '/orders',
  destinations: { shipping: { kind: 'sqs-fifo', groupId: 'aggregate-id' }, all: { kind: 'eventbridge' } },
  events: {
    'order.placed': {
      aggregate: 'order',
      whenParked: 'block',
      destinations: ['shipping', 'all'],
      versions: { 1: { type: 'object' } },
    },
  },
} as const);

const LOCAL: DatabaseConnection = {
  host: '127.0.0.1',
  port: 5432,
  name: 'mine',
  auth: { kind: 'password', password: 'p' },
};

function mine() {
  const stack = new Stack(emptyApp(), 'Mine', { env });
  const database = (more: Partial<OutboxDatabaseProps> = {}) =>
    new OutboxDatabase(stack, 'Database', { connection: LOCAL, catalogue, migrator: 'migrator', ...more });
  const queue = (name: string): IQueue =>
    Queue.fromQueueArn(stack, name, `arn:aws:sqs:${env.region}:${env.account}:${name}`);
  const bus = EventBus.fromEventBusName(stack, 'Bus', 'theirs');
  return { stack, database, queue, bus };
}

function functionOf(template: Template, service: string): Resource {
  const found = Object.values(template.findResources('AWS::Lambda::Function') as Record<string, Resource>).find(
    (fn) => variablesOf(fn)['POWERTOOLS_SERVICE_NAME'] === service,
  );
  return found!;
}

it('the stack of docs/library.md, on queues of somebody else: pruned, operated and watched', () => {
  const { stack, database: theirs, queue, bus } = mine();
  const database = theirs();
  const shipping = EventQueue.existing({
    queue: queue('shipping.fifo'),
    deadLetterQueue: queue('shipping-dead.fifo'),
    visibilityTimeout: Duration.minutes(3),
  });
  const outbox = new Outbox(stack, 'Outbox', { database, destinations: { shipping, all: bus } });
  const { installation } = outbox;
  const keys = new SealingKeys(stack, 'Keys', { vaultName: 'shop' });
  const janitor = new Janitor(stack, 'Janitor', {
    installation,
    database,
    keep: { outbox: Duration.days(14), inbox: Duration.days(35) },
    sealing: { keys, rotates: ['contact'] },
  });
  new Operator(stack, 'Operator', { installation, database, queues: { shipping }, vault: true });
  const watched = { queues: { shipping }, consumers: ['shipping'], topic: new Topic(stack, 'Topic') };
  new OutboxAlarms(stack, 'Alarms', { outbox, janitor, ...watched });
  const { alarms } = new ConsumerAlarms(stack, 'ConsumerAlarms', { installation, ...watched });
  expect(outbox.destinations).toEqual(['shipping', 'all']);
  expect(alarms.map(({ node }) => node.id)).toEqual(['queue-age-shipping', 'effect-age-shipping', 'returned-shipping']);
  const template = Template.fromStack(stack);
  for (const name of ['relay', 'monitor', 'janitor', 'operator']) expect(functionOf(template, name)).toBeDefined();
});

describe('an outbox on queues and a bus that are there already', () => {
  const outbox = (destinations: (of: ReturnType<typeof mine>) => OutboxProps['destinations']) => {
    const it = mine();
    return {
      ...it,
      outbox: new Outbox(it.stack, 'Outbox', { database: it.database(), destinations: destinations(it) }),
    };
  };

  it('sends to them, and to nothing else', () => {
    const { stack } = outbox(({ queue, bus }) => ({ shipping: queue('shipping.fifo'), all: bus }));
    const template = Template.fromStack(stack);
    const told = JSON.stringify(variablesOf(functionOf(template, 'relay'))['OUTBOX_DESTINATIONS']);
    expect(told).toContain('sqs-fifo');
    expect(told).toContain('theirs');
    template.hasResourceProperties('AWS::IAM::Policy', {
      PolicyDocument: {
        Statement: Match.arrayWith([
          Match.objectLike({
            Action: Match.arrayWith(['sqs:SendMessage']),
            Resource: Match.stringLikeRegexp('shipping.fifo$'),
          }),
        ]),
      },
    });
    template.resourceCountIs('AWS::SQS::Queue', 0);
  });

  it.each<[string, (of: ReturnType<typeof mine>) => OutboxProps['destinations'], RegExp]>([
    ['none at all', () => ({}), /Mine\/Outbox: there are no destinations/],
    ['one that the catalogue has and the stack has not', ({ bus }) => ({ all: bus }), /sends events to shipping/],
    [
      'one that the catalogue has not',
      ({ queue, bus }) => ({ shipping: queue('a.fifo'), all: bus, toString: bus }),
      /no destination toString/,
    ],
    [
      'a queue of another kind',
      ({ queue, bus }) => ({ shipping: queue('standard'), all: bus }),
      /shipping is sqs, and the catalogue says sqs-fifo/,
    ],
    ['a bus for a queue', ({ bus }) => ({ shipping: bus, all: bus }), /shipping is eventbridge/],
  ])('refuses %s', (_, destinations, message) => {
    expect(() => outbox(destinations)).toThrow(message);
  });

  it('lets a function append by a login of its own, and that is created before the function', () => {
    const { stack, outbox: made } = outbox(({ queue, bus }) => ({ shipping: queue('shipping.fifo'), all: bus }));
    const fn = new LambdaFunction(stack, 'Checkout', {
      code: Code.fromInline('exports.handler = () => {}'),
      handler: 'index.handler',
      runtime: Runtime.NODEJS_24_X,
    });
    made.grantAppend(fn, { user: 'shop_checkout', roles: ['shop_writer'] }, 20);
    const template = Template.fromStack(stack);
    const logins = JSON.parse(variablesOf(functionOf(template, 'migrate'))['DATABASE_LOGINS']);
    expect(logins).toContainEqual({ user: 'shop_checkout', roles: ['shop_writer', 'outbox_writer'], connections: 20 });
    template.hasResource('AWS::Lambda::Function', {
      Properties: { Environment: { Variables: { DATABASE_USER: 'shop_checkout' } } },
      DependsOn: Match.arrayWith([Match.stringLikeRegexp('^DatabaseMigrateNow')]),
    });
    expect(() => made.grantAppend(fn, { user: 'shop_checkout', roles: [] }, 1)).toThrow(/two functions connect as/);
  });

  it('measures by destination', () => {
    const { stack, outbox: made } = outbox(({ queue, bus }) => ({ shipping: queue('shipping.fifo'), all: bus }));
    expect(stack.resolve(made.metricOldestPendingAge('shipping').toMetricConfig().metricStat?.dimensions)).toEqual([
      { name: 'Destination', value: 'shipping' },
      { name: 'Installation', value: 'Mine' },
    ]);
  });
});

describe('an installation', () => {
  const consumerIn = (scope: Stack, database: OutboxDatabase, more: Partial<EventConsumerProps> = {}) =>
    new EventConsumer(scope, 'Consumer', {
      consumer: 'shipping',
      entry: 'functions/sample/ledger/index.ts',
      source: new EventQueue(scope, 'Source', { consumerTimeout: Duration.seconds(30) }),
      database,
      login: { user: 'shop_shipping', roles: ['inbox_consumer'] },
      timeout: Duration.seconds(30),
      drainEvery: false,
      ...more,
    });
  const toldTo = (stack: Stack, service: string) =>
    variablesOf(functionOf(Template.fromStack(stack), service))['OUTBOX_INSTALLATION'];

  it('has consumers and APIs in other stacks, which report under its name, made before its outbox or after', () => {
    const { stack, database, queue, bus } = mine();
    const made = database();
    const [first, second] = ['First', 'Second'].map((name) => new Stack(stack.node.root as App, name, { env })) as [
      Stack,
      Stack,
    ];
    consumerIn(first, made);
    new Outbox(stack, 'Outbox', {
      database: made,
      destinations: { shipping: queue('shipping.fifo'), all: bus },
      installation: 'shop',
    });
    new EventApi(second, 'Api', {
      entry: 'functions/sample/api/index.ts',
      routes: ['POST /things'],
      database: made,
      login: { user: 'shop_api', roles: [] },
      access: 'open',
    });
    expect(toldTo(stack, 'relay')).toBe('shop');
    expect(toldTo(first, 'shipping')).toBe('shop');
    expect(toldTo(second, 'api')).toBe('shop');
  });

  it('may be named by a consumer whose outbox has another database', () => {
    const { stack, database } = mine();
    consumerIn(stack, database(), { installation: 'shop', drainEvery: Duration.minutes(5) });
    expect(toldTo(stack, 'shipping')).toBe('shop');
    Template.fromStack(stack).hasResourceProperties('AWS::Scheduler::Schedule', { Name: 'shop-shipping-drain' });
  });

  it('is not that of two outboxes of a stack', () => {
    const { stack, database, queue, bus } = mine();
    const destinations = { shipping: queue('shipping.fifo'), all: bus };
    new Outbox(stack, 'Outbox', { database: database(), destinations });
    const other = new OutboxDatabase(stack, 'Other', { connection: LOCAL, catalogue, migrator: 'migrator' });
    expect(() => new Outbox(stack, 'Second', { database: other, destinations })).toThrow(
      /Mine\/Second: Mine\/Outbox is the installation "Mine" already.*Give one of them another/,
    );
    const second = new Outbox(stack, 'Third', { database: other, destinations, installation: 'returns' });
    expect(second.installation).toBe('returns');
    const names = Object.values(Template.fromStack(stack).findResources('AWS::Scheduler::Schedule')).map(
      ({ Properties }) => Properties['Name'] as string,
    );
    expect(names.toSorted()).toEqual(['Mine-monitor', 'Mine-relay', 'returns-monitor', 'returns-relay']);
  });
});

describe('a database that is there already', () => {
  const host = 'shop.cluster-x.eu-central-1.rds.amazonaws.com';
  const userOf = (connection: (stack: Stack) => DatabaseConnection) => {
    const { stack, database } = mine();
    database({ connection: connection(stack) });
    const template = Template.fromStack(stack);
    const { DATABASE_HOST, DATABASE_PORT } = variablesOf(functionOf(template, 'migrate'));
    return { at: `${DATABASE_HOST}:${DATABASE_PORT}`, json: JSON.stringify(template.toJSON()) };
  };

  it('is an Aurora cluster', () => {
    const { at, json } = userOf((stack) =>
      connectionTo(
        DatabaseCluster.fromDatabaseClusterAttributes(stack, 'Theirs', {
          clusterIdentifier: 'shop',
          clusterEndpointAddress: host,
          port: 6543,
          clusterResourceIdentifier: 'cluster-ABC',
        }),
        { databaseName: 'shop' },
      ),
    );
    expect(at).toBe(`${host}:6543`);
    expect(json).toContain(':dbuser:cluster-ABC/migrator');
  });

  it('is an RDS instance', () => {
    const { at, json } = userOf((stack) =>
      connectionTo(
        DatabaseInstance.fromDatabaseInstanceAttributes(stack, 'Theirs', {
          instanceIdentifier: 'shop',
          instanceEndpointAddress: host,
          port: 5432,
          instanceResourceId: 'db-ABC',
          securityGroups: [],
        }),
        { databaseName: 'shop' },
      ),
    );
    expect(at).toBe(`${host}:5432`);
    expect(json).toContain(':dbuser:db-ABC/migrator');
  });

  it('is refused where IAM would not know it, with what to give', () => {
    const { stack } = mine();
    const cluster = DatabaseCluster.fromDatabaseClusterAttributes(stack, 'Theirs', {
      clusterIdentifier: 'shop',
      clusterEndpointAddress: host,
      port: 5432,
    });
    expect(() => connectionTo(cluster, { databaseName: 'shop' })).toThrow(/Mine\/Theirs: .*clusterResourceIdentifier/);
    const instance = DatabaseInstance.fromDatabaseInstanceAttributes(stack, 'Instance', {
      instanceIdentifier: 'shop',
      instanceEndpointAddress: host,
      port: 5432,
      securityGroups: [],
    });
    expect(() => connectionTo(instance, { databaseName: 'shop' })).toThrow(/instanceResourceId when you import it/);
  });

  it('lets a container in by its role, and says how', () => {
    const { stack, database } = mine();
    const made = database({
      connection: { ...LOCAL, host: 'db.example.com', auth: { kind: 'iam', resourceId: 'cluster-ABC' } },
    });
    const task = new Role(stack, 'Task', { assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com') });
    expect(made.grantConnect(task, { user: 'relay_task', roles: ['outbox_relay'] }, 2)).toEqual({
      DATABASE_HOST: 'db.example.com',
      DATABASE_PORT: '5432',
      DATABASE_NAME: 'mine',
      DATABASE_USER: 'relay_task',
      DATABASE_AUTH: 'iam',
    });
    const template = Template.fromStack(stack);
    expect(JSON.stringify(template.toJSON())).toContain(':dbuser:cluster-ABC/relay_task');
    expect(JSON.parse(variablesOf(functionOf(template, 'migrate'))['DATABASE_LOGINS'])).toEqual([
      { user: 'relay_task', roles: ['outbox_relay'], connections: 2 },
    ]);
  });

  it('gives a container the keys of its classes by its role, and says where they are', () => {
    const { stack, database } = mine();
    const made = database();
    const keys = new SealingKeys(stack, 'Keys', { vaultName: 'shop', erasureLog: new ErasureLog(stack, 'Log') });
    const task = new Role(stack, 'Task', { assumedBy: new ServicePrincipal('ecs-tasks.amazonaws.com') });
    const sealing = { keys, seals: ['contact'] };
    const variables = made.grantConnect(task, { user: 'shop_task', roles: ['outbox_writer'], sealing }, 2);
    expect(variables).toMatchObject({ DATABASE_USER: 'shop_task', SEALING_VAULT: 'shop' });
    expect(Object.keys(variables)).toEqual(expect.arrayContaining(['SEALING_KEY_ARN', 'SEALING_ERASURE_LOG']));
    const template = Template.fromStack(stack);
    expect(JSON.parse(variablesOf(functionOf(template, 'migrate'))['DATABASE_LOGINS'])).toEqual([
      {
        user: 'shop_task',
        roles: ['outbox_writer', 'vault_writer'],
        connections: 2,
        vault: { reads: [], creates: ['contact'] },
      },
    ]);
    const policies = JSON.stringify(template.findResources('AWS::IAM::Policy'));
    expect(policies).toMatch(/"kms:GenerateDataKey".*"kms:EncryptionContext:class":\["contact"\]/);
    expect(policies).toContain('"Roles":[{"Ref":"Task');
    const service = new ServicePrincipal('ecs-tasks.amazonaws.com');
    expect(() => made.grantConnect(service, { user: 'other', roles: [], sealing }, 2)).toThrow('has no role');
  });

  it('must be told what to install', () => {
    const { stack } = mine();
    const none = { connection: LOCAL, migrator: 'migrator' };
    expect(() => new OutboxDatabase(stack, 'None', none)).toThrow(/Mine\/None: there is no catalogue to install/);
    expect(() => new OutboxDatabase(stack, 'Manual', { ...none, migrations: 'manual' })).not.toThrow();
  });
});

describe('a consumer of a queue that is there already', () => {
  const consumer = (more: Partial<EventConsumerProps> = {}, deadLetters = 'dead.fifo') => {
    const { stack, database, queue } = mine();
    new EventConsumer(stack, 'Consumer', {
      consumer: 'shipping',
      entry: 'functions/sample/ledger/index.ts',
      source: EventQueue.existing({
        queue: queue('shipping.fifo'),
        deadLetterQueue: queue(deadLetters),
        visibilityTimeout: Duration.minutes(3),
      }),
      database: database(),
      login: { user: 'shop_shipping', roles: ['inbox_consumer'] },
      timeout: Duration.seconds(30),
      ...more,
    });
    return Template.fromStack(stack);
  };

  const strict = { name: 'shipping', mode: 'strict', startingPoint: 'beginning', handles: ['order.placed'] } as const;

  it('reads from it, as it is declared', () => {
    const template = consumer({ consumer: declareConsumer(catalogue, { ...strict, destination: 'shipping' }) });
    expect(functionOf(template, 'shipping')).toBeDefined();
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', {
      EventSourceArn: `arn:aws:sqs:${env.region}:${env.account}:shipping.fifo`,
      FunctionResponseTypes: ['ReportBatchItemFailures'],
    });
  });

  it.each<[string, Partial<EventConsumerProps>, RegExp]>([
    ['a name that eventConsumer refuses', { consumer: 'Shipping' }, /Mine\/Consumer: "Shipping" is no name/],
    ['one sandbox, which SQS does not know', { maxConcurrency: 1 }, /maxConcurrency is 1. SQS takes 2 to 1000/],
    ['half a connection', { connections: 0.5 }, /connections is 0.5/],
    ['a login that may not apply events', { login: { user: 'x', roles: [] } }, /has not the role inbox_consumer/],
    [
      'more time than the queue hides a message',
      { timeout: Duration.seconds(31) },
      /Raise the queue's consumerTimeout/,
    ],
  ])('refuses %s', (_, more, message) => {
    expect(() => consumer(more)).toThrow(message);
  });

  it('case 59: that is strict is refused where the catalogue that is deployed does not route to it what it was declared with', () => {
    const { 'order.placed': placed } = catalogue.events;
    const before = defineCatalogue({
      ...catalogue,
      destinations: { ...catalogue.destinations, old: { kind: 'sqs' } },
      events: { 'order.placed': { ...placed, destinations: ['old'] } },
    });
    const declared = declareConsumer(before, { ...strict, destination: 'old' });
    expect(() => consumer({ consumer: declared })).toThrow('consumer shipping: its catalogue has no destination "old"');
    const later = defineCatalogue({ ...catalogue, events: { 'order.placed': { ...placed, destinations: ['all'] } } });
    const { database } = mine();
    expect(() =>
      consumer({ consumer: { ...declared, destination: 'shipping' }, database: database({ catalogue: later }) }),
    ).toThrow('order.placed of its aggregates is not routed to shipping');
  });

  it('refuses a dead-letter queue of another kind', () => {
    expect(() => consumer({}, 'dead')).toThrow(/must both be FIFO or both not/);
  });
});

it('bundles what lies in one folder each by itself: two entries are never one asset', { timeout: 60_000 }, () => {
  const app = new App({ analyticsReporting: false, builtinCloudFormationValidation: false });
  const stack = new Stack(app, 'Mine', { env });
  const folder = mkdtempSync(join(tmpdir(), 'sealed-outbox-entries-'));
  try {
    for (const name of ['one', 'two']) {
      writeFileSync(join(folder, `${name}.ts`), `export const handler = () => '${name}';`);
      new NodeFunction(stack, name, {
        entry: join(folder, `${name}.ts`),
        serviceName: name,
        description: name,
        timeout: Duration.seconds(3),
      });
    }
    const keys = Object.values(Template.fromStack(stack).findResources('AWS::Lambda::Function')).map(
      ({ Properties }) => Properties.Code.S3Key as string,
    );
    expect(new Set(keys).size).toBe(2);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
