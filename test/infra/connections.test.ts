import { Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { EventConsumer, type EventConsumerProps, EventQueue, OutboxDatabase } from '../../infra/index.ts';
import { emptyApp, type Resource, synthesise, variablesOf } from './synthesised.ts';

/** What the functions together may take of the database. A stated number: whoever raises it looks at the server's `max_connections` first. */
const CAP = 200;
const MIGRATOR = 2;

interface Login {
  readonly user: string;
  readonly connections: number;
}

describe.each(['dev', 'prod', 'local'] as const)('database connections of stage %s', (stage) => {
  const { resources, functionNamed } = synthesise(stage);
  const logins = JSON.parse(variablesOf(functionNamed('migrate')[1])['DATABASE_LOGINS']) as Login[];
  const loginOf = ([, fn]: [string, Resource]) =>
    logins.find(({ user }) => user === variablesOf(fn)['DATABASE_USER'])?.connections;

  it('stay under the cap, all functions together, and the server holds each to its share', () => {
    const functions = resources('AWS::Lambda::Function').filter(([, fn]) => 'DATABASE_USER' in variablesOf(fn));
    const users = functions.map(([, fn]) => variablesOf(fn)['DATABASE_USER']);
    expect(new Set(users)).toEqual(new Set([...logins.map(({ user }) => user), 'sealed_migrator']));
    for (const { connections } of logins) expect(connections).toBeGreaterThan(0);
    expect(logins.reduce((sum, { connections }) => sum + connections, MIGRATOR)).toBeLessThanOrEqual(CAP);
  });

  it('are, for a consumer, as many as it has sandboxes at most, one for its schedule, times the size of their pools', () => {
    const sources = resources('AWS::Lambda::EventSourceMapping');
    expect(sources.length).toBeGreaterThan(0);
    for (const [, { Properties }] of sources) {
      const fn = resources('AWS::Lambda::Function').find(([id]) => id === Properties['FunctionName'].Ref)!;
      const sandboxes = Number(Properties['ScalingConfig'].MaximumConcurrency);
      const pool = Number(variablesOf(fn[1])['DATABASE_POOL_SIZE']);
      const schedules = resources('AWS::Scheduler::Schedule').filter(
        ([, schedule]) => schedule.Properties['Target'].Arn['Fn::GetAtt'][0] === fn[0],
      );
      expect(schedules).toHaveLength(1);
      expect(sandboxes).toBeGreaterThanOrEqual(2);
      expect(loginOf(fn)).toBe((sandboxes + schedules.length) * pool);
    }
  });

  it('are enough for every run of the relay that may overlap', () => {
    const relay = functionNamed('relay');
    expect(loginOf(relay)).toBeGreaterThan(Number(relay[1].Properties['Timeout']) / 60);
  });
});

describe('a consumer of your own', () => {
  const consumer = (more: Partial<EventConsumerProps>) => {
    const stack = new Stack(emptyApp(), 'Own');
    const database = new OutboxDatabase(stack, 'Database', {
      connection: { host: '127.0.0.1', port: 5432, name: 'outbox', auth: { kind: 'password', password: 'none' } },
      migrateEntry: 'functions/migrate/index.ts',
      migrator: 'sealed_migrator',
      maxConnections: 102,
    });
    const timeout = Duration.seconds(30);
    new EventConsumer(stack, 'Consumer', {
      consumer: 'own',
      entry: 'functions/sample/ledger/index.ts',
      source: new EventQueue(stack, 'Queue', { consumerTimeout: timeout }),
      database,
      login: { user: 'own', roles: ['inbox_consumer'] },
      timeout,
      ...more,
    });
    return Template.fromStack(stack);
  };

  it('is refused where its sandboxes could take more than there is, with the number', () => {
    expect(() => consumer({ maxConcurrency: 50, connections: 2 })).toThrow(/104 connections, maxConnections is 102/);
    expect(() => consumer({ maxConcurrency: 49, connections: 2 })).not.toThrow();
    const unscheduled = { connections: 2, drainEvery: false } as const;
    expect(() => consumer({ ...unscheduled, maxConcurrency: 51 })).toThrow(/104 connections, maxConnections is 102/);
    expect(() => consumer({ ...unscheduled, maxConcurrency: 50 })).not.toThrow();
  });

  it('goes on with held events as often as it is told, or only after its batches', () => {
    const small = { maxConcurrency: 2 };
    consumer({ ...small, drainEvery: Duration.minutes(1) }).hasResourceProperties('AWS::Scheduler::Schedule', {
      Name: 'Own-own-drain',
      ScheduleExpression: 'rate(1 minute)',
    });
    consumer({ ...small, drainEvery: false }).resourceCountIs('AWS::Scheduler::Schedule', 0);
  });

  it('is recorded by X-Ray where it is asked for, and may then write traces', () => {
    const hasTracing = { TracingConfig: { Mode: 'Active' } };
    consumer({ tracing: true }).hasResourceProperties('AWS::Lambda::Function', hasTracing);
    expect(JSON.stringify(consumer({ tracing: true }))).toContain('xray:PutTraceSegments');
    consumer({}).resourcePropertiesCountIs('AWS::Lambda::Function', hasTracing, 0);
    expect(JSON.stringify(consumer({}))).not.toContain('xray:');
  });
});
