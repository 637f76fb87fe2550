import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { EventBus, type IEventBus } from 'aws-cdk-lib/aws-events';
import type { CfnFunction } from 'aws-cdk-lib/aws-lambda';
import { Queue } from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { describe, expect, it } from 'vitest';
import { BusToQueue, EventQueue, Outbox, OutboxDatabase } from '../../infra/index.ts';
import { stages } from '../../infra/stages.ts';
import { emptyApp, type Resource, variablesOf } from './synthesised.ts';

const env = { account: '123456789012', region: 'eu-central-1' };

/** What the relay of a stack of one's own is told about its one destination. */
function told(destination: (scope: Construct) => EventQueue | IEventBus): string {
  const stack = new Stack(emptyApp(), 'Mine', { env });
  const database = new OutboxDatabase(stack, 'Database', {
    connection: { host: '127.0.0.1', port: 5432, name: 'mine', auth: { kind: 'password', password: 'p' } },
    migrateEntry: 'functions/migrate/index.ts',
    migrator: 'sealed_migrator',
  });
  new Outbox(stack, 'Outbox', { database, destinations: { there: destination(stack) } });
  const functions = Object.values(Template.fromStack(stack).findResources('AWS::Lambda::Function')) as Resource[];
  const relay = functions.find((fn) => variablesOf(fn)['POWERTOOLS_SERVICE_NAME'] === 'relay');
  const address: unknown = relay && variablesOf(relay)['OUTBOX_DESTINATIONS'];
  return typeof address === 'string' ? address : JSON.stringify(address);
}

const bus = (arn: string) => (scope: Construct) => EventBus.fromEventBusArn(scope, 'Bus', arn);

describe('the concurrency of a relay', () => {
  const relayWith = (reservedConcurrency: number) => {
    const stack = new Stack(emptyApp(), 'Mine');
    const database = new OutboxDatabase(stack, 'Database', {
      connection: { host: '127.0.0.1', port: 5432, name: 'shop', auth: { kind: 'password', password: 'p' } },
      migrateEntry: 'functions/migrate/index.ts',
      migrator: 'sealed_migrator',
    });
    const { relayFunction } = new Outbox(stack, 'Outbox', {
      database,
      destinations: { there: new Queue(stack, 'Queue') },
      reservedConcurrency,
    });
    return stack.resolve((relayFunction.node.defaultChild as CfnFunction).reservedConcurrentExecutions) as unknown;
  };

  it('is kept for it where somebody asks, and is enough for all runs that may overlap', () => {
    expect(relayWith(4)).toBe(4);
    expect(() => relayWith(3)).toThrow('reservedConcurrency is 3, and 4 runs of the relay may overlap');
  });
});

describe('a destination of an outbox in a stack of one’s own', () => {
  it('a bus of the same account and region is called by its name', () => {
    expect(told(bus('arn:aws:events:eu-central-1:123456789012:event-bus/events'))).toBe(
      '{"there":{"kind":"eventbridge","bus":"events"}}',
    );
  });

  it.each([
    'arn:aws:events:eu-central-1:999999999999:event-bus/events',
    'arn:aws:events:us-east-1:123456789012:event-bus/events',
  ])('a bus elsewhere by its ARN, not by a name that may be another one here: %s', (arn) => {
    expect(told(bus(arn))).toBe(JSON.stringify({ there: { kind: 'eventbridge', bus: arn } }));
  });

  it.each([
    [false, 'sqs'],
    [true, 'sqs-fifo'],
  ])('a queue says whether it is FIFO: %s', (fifo, kind) => {
    const { consumerTimeout } = stages.dev;
    const address = told((scope) => new EventQueue(scope, 'Queue', { consumerTimeout, fifo }));
    expect(address.replaceAll('\\', '')).toContain(`"there":{"kind":"${kind}","url":"`);
  });
});

describe('a rule from a bus to a queue', () => {
  it('hands on the types that it names', () => {
    const stack = new Stack(emptyApp(), 'Mine', { env });
    const queue = new EventQueue(stack, 'Queue', { consumerTimeout: stages.dev.consumerTimeout, fifo: false });
    new BusToQueue(stack, 'Rule', {
      bus: new EventBus(stack, 'Bus'),
      queue,
      source: '/orders',
      types: ['order.placed'],
    });
    Template.fromStack(stack).hasResourceProperties('AWS::Events::Rule', {
      EventPattern: { source: ['/orders'], 'detail-type': ['order.placed'] },
    });
  });
});
