import { App, Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import { describe, expect, it } from 'vitest';
import { erasable } from '../../functions/sample/catalogue/erasable.ts';
import { customerEmail } from '../../functions/sample/catalogue/classes.ts';
import { CUSTOMER } from '../../functions/sample/api/tables.ts';
import { declaredIndexes } from '../../shared/sealing/index.ts';
import { janitorConfig } from '../../functions/janitor/config.ts';
import { type ConsumerDeclaration, declareConsumer, defineCatalogue } from '../../shared/events/index.ts';
import {
  ErasureLog,
  EventArchive,
  EventConsumer,
  EventQueue,
  Janitor,
  OutboxDatabase,
  SealingKeys,
} from '../../infra/index.ts';
import { emptyApp, synthesise, variablesOf } from './synthesised.ts';

describe('a janitor of your own', () => {
  it.each([
    ['is given keys and rotates none', { erases: true }, [], 'name their classes in sealing.rotates'],
    ['rotates keys whose log of erasures it does not finish', { rotates: ['contact'] }, [], 'declare erases: true'],
    [
      'has an index over a class that it does not rotate',
      { rotates: ['tax'], erases: true },
      [{ name: 'e-mail', class: 'contact', normaliser: 'email', columns: [] }],
      'add it to sealing.rotates',
    ],
  ] as const)('that %s is refused', (_what, sealing, indexes, message) => {
    const stack = new Stack(emptyApp(), 'Own');
    const keys = new SealingKeys(stack, 'Keys', { vaultName: 'shop', erasureLog: new ErasureLog(stack, 'Log') });
    const database = new OutboxDatabase(stack, 'Database', {
      connection: { host: '127.0.0.1', port: 5432, name: 'outbox', auth: { kind: 'password', password: 'none' } },
      migrateEntry: 'functions/migrate/index.ts',
      migrator: 'sealed_migrator',
    });
    const keep = { outbox: Duration.days(14), inbox: Duration.days(35) };
    const props = { installation: 'shop', database, keep, indexes, sealing: { keys, ...sealing } };
    expect(() => new Janitor(stack, 'Janitor', props)).toThrow(message);
  });
});

it('has no more erasable columns than fit into the environment of a function: synthesis names it and its largest variables', () => {
  const stack = new Stack(emptyApp(), 'Own');
  const keys = new SealingKeys(stack, 'Keys', { vaultName: 'shop', erasureLog: new ErasureLog(stack, 'Log') });
  const database = new OutboxDatabase(stack, 'Database', {
    connection: { host: '127.0.0.1', port: 5432, name: 'outbox', auth: { kind: 'password', password: 'none' } },
    migrateEntry: 'functions/migrate/index.ts',
    migrator: 'sealed_migrator',
  });
  new Janitor(stack, 'Janitor', {
    installation: 'shop',
    database,
    keep: { outbox: Duration.days(14), inbox: Duration.days(35) },
    erasable: Array.from({ length: 40 }, (_, index) =>
      erasable.slice(0, 1).map((columns) => ({ ...columns, table: `sample.a_table_with_a_name_${index}` })),
    ).flat(),
    sealing: { keys, rotates: ['contact'], erases: true },
  });
  expect(() => Template.fromStack(stack)).toThrow(
    /Own\/Janitor\/Function: its environment has \d+ bytes, and Lambda takes 4096. Largest: JANITOR_ERASABLE \(\d+\), /,
  );
});

describe('how long a janitor keeps dedupe rows', () => {
  const catalogue = defineCatalogue({
    source: '/shop',
    destinations: { shipping: { kind: 'sqs' } },
    events: {
      'order.placed': {
        aggregate: 'order',
        versions: { 1: { type: 'object' } },
        whenParked: 'skip',
        destinations: ['shipping'],
      },
    },
  });

  /** What synthesis finds wrong with a janitor that keeps `days`, beside a consumer. */
  function wrong(days: number, consumer: ConsumerDeclaration | string, sameDatabase = true): readonly string[] {
    const stack = new Stack(emptyApp(), 'Own');
    const database = (id: string) =>
      new OutboxDatabase(stack, id, {
        connection: { host: '127.0.0.1', port: 5432, name: 'outbox', auth: { kind: 'password', password: 'none' } },
        migrateEntry: 'functions/migrate/index.ts',
        migrator: 'sealed_migrator',
      });
    const janitors = database('Database');
    const janitor = new Janitor(stack, 'Janitor', {
      installation: 'shop',
      database: janitors,
      keep: { outbox: Duration.days(14), inbox: Duration.days(days) },
    });
    const queue = new Queue(stack, 'Queue', { visibilityTimeout: Duration.minutes(3) });
    new EventConsumer(stack, 'Consumer', {
      consumer,
      entry: 'functions/sample/ledger/index.ts',
      source: EventQueue.existing({ queue, deadLetterQueue: queue, visibilityTimeout: Duration.minutes(3) }),
      database: sameDatabase ? janitors : database('Other'),
      login: { user: 'shop_shipping', roles: ['inbox_consumer'] },
      timeout: Duration.seconds(30),
    });
    return janitor.node.validate();
  }

  const shipping = (windowDays?: number) =>
    declareConsumer(catalogue, {
      name: 'shipping',
      mode: 'any',
      handles: ['order.placed'],
      ...(windowDays !== undefined && { windowDays }),
    });

  it('is refused where a consumer of its database applies older events, by the window that was declared or the default', () => {
    expect(wrong(35, shipping(60))).toEqual([
      expect.stringMatching(
        /keep\.inbox is 35 days, and consumer shipping applies events up to 60 days old.*Raise keep\.inbox, or declare a shorter windowDays/,
      ),
    ]);
    expect(wrong(34, shipping())).toHaveLength(1);
  });

  it('is taken where it suffices, and where the consumer has another database, or a name alone', () => {
    expect(wrong(60, shipping(60))).toEqual([]);
    expect(wrong(35, shipping())).toEqual([]);
    expect(wrong(10, shipping(10))).toEqual([]);
    expect(wrong(35, shipping(60), false)).toEqual([]);
    expect(wrong(10, 'shipping')).toEqual([]);
  });
});

describe.each(['dev', 'prod', 'local'] as const)('the janitor of stage %s', (stage) => {
  const { resources, functionNamed } = synthesise(stage);
  const [id, janitor] = functionNamed('janitor');
  const buckets = resources('AWS::S3::Bucket').filter(([name]) => name.startsWith('Archive'));

  it('starts every five minutes and ends before the next one does', () => {
    const [, schedule] = resources('AWS::Scheduler::Schedule').find(
      ([, { Properties }]) => Properties['Target'].Arn['Fn::GetAtt'][0] === id,
    )!;
    expect(schedule.Properties['ScheduleExpression']).toBe('rate(5 minutes)');
    expect(janitor.Properties['Timeout']).toBe(300);
  });

  it('is set as its function reads it, and keeps dedupe rows longer than a message lies in queue and dead-letter queue', () => {
    const variables = variablesOf(janitor);
    const SEALING_KEY_ARN = 'arn:aws:kms:eu-central-1:123456789012:key/1';
    const config = janitorConfig({
      ...variables,
      JANITOR_ARCHIVE: 'none',
      SEALING_ERASURE_LOG: 'bucket',
      SEALING_KEY_ARN,
    });
    expect(config).toMatchObject({
      maxSeconds: 240,
      outboxSeconds: 14 * 86_400,
      also: [{ name: 'sample.prune_idempotency', keepSeconds: 7 * 86_400 }],
    });
    const queued = resources('AWS::SQS::Queue').map(
      ([, { Properties }]) => Properties['MessageRetentionPeriod'] as number,
    );
    expect(config.inboxSeconds).toBeGreaterThan(2 * Math.max(...queued));
    expect(JSON.stringify(variables['JANITOR_ARCHIVE'])).toMatch(
      stage === 'dev' ? /^"none"$/ : /"s3:\/\/".*ArchiveBucket/,
    );
  });

  it('clears the same columns of an erased customer as the API', () => {
    expect(JSON.parse(variablesOf(janitor)['JANITOR_ERASABLE'] as string)).toEqual(erasable);
  });

  it('looks after the index by which the API finds customers, and after the column that it is in', () => {
    const [declared, ...others] = declaredIndexes(JSON.parse(variablesOf(janitor)['JANITOR_INDEXES'] as string));
    expect(others).toEqual([]);
    expect(declared?.index).toEqual(customerEmail);
    expect(customerEmail.class).toBe(CUSTOMER.columns.email);
    const { store, table } = CUSTOMER;
    expect(declared?.columns).toEqual([{ store, table, primaryKey: 'id', sealed: 'email', index: 'email_index' }]);
    expect(variablesOf(janitor)['SEALING_INDEX_DAYS']).toBe('365');
  });

  it('has an archive, but for a stage that is disposable', () => {
    expect(buckets).toHaveLength(stage === 'dev' ? 0 : 1);
    for (const [, bucket] of buckets)
      expect(bucket.DeletionPolicy).toBe(stage === 'prod' ? 'RetainExceptOnCreate' : 'Delete');
  });
});

describe('an archive of events', () => {
  const { resources } = synthesise('prod');
  const [name, bucket] = resources('AWS::S3::Bucket').find(([id]) => id.startsWith('Archive'))!;

  it('is private, encrypted and versioned', () => {
    expect(bucket.Properties).toMatchObject({
      PublicAccessBlockConfiguration: {
        BlockPublicAcls: true,
        BlockPublicPolicy: true,
        IgnorePublicAcls: true,
        RestrictPublicBuckets: true,
      },
      BucketEncryption: {
        ServerSideEncryptionConfiguration: [{ ServerSideEncryptionByDefault: { SSEAlgorithm: 'AES256' } }],
      },
      VersioningConfiguration: { Status: 'Enabled' },
      OwnershipControls: { Rules: [{ ObjectOwnership: 'BucketOwnerEnforced' }] },
    });
  });

  it('refuses callers without TLS', () => {
    const [, policy] = resources('AWS::S3::BucketPolicy').find(
      ([, { Properties }]) => Properties['Bucket'].Ref === name,
    )!;
    expect(policy.Properties['PolicyDocument'].Statement).toContainEqual(
      expect.objectContaining({
        Effect: 'Deny',
        Action: 's3:*',
        Condition: { Bool: { 'aws:SecureTransport': 'false' } },
      }),
    );
  });

  it('becomes cheap after a month, and forgets only where it is told to', () => {
    const rulesOf = (props: ConstructorParameters<typeof EventArchive>[2]) => {
      const stack = new Stack(new App({ builtinCloudFormationValidation: false }), 'Any');
      new EventArchive(stack, 'Archive', props);
      const [found] = Object.values(Template.fromStack(stack).findResources('AWS::S3::Bucket'));
      return found?.['Properties'].LifecycleConfiguration.Rules[0];
    };
    expect(rulesOf({})).toMatchObject({ Transitions: [{ StorageClass: 'GLACIER_IR', TransitionInDays: 30 }] });
    expect(rulesOf({})).not.toHaveProperty('ExpirationInDays');
    expect(rulesOf({ expireAfter: Duration.days(400) })).toMatchObject({ ExpirationInDays: 400 });
  });
});
