import { App, Duration, Stack } from 'aws-cdk-lib';
import { Match, Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { definition } from '../../functions/sample/catalogue/definition.ts';
import { EventQueue } from '../../infra/index.ts';
import { type Resource, synthesise } from './synthesised.ts';

const DAY = 86_400;

describe.each(['dev', 'prod', 'local'] as const)('queues of stage %s', (stage) => {
  const { service, resources, functionNamed } = synthesise(stage);
  const queues = resources('AWS::SQS::Queue').map(([, { Properties }]) => Properties);
  const [ledger, ledgerDead, analytics, analyticsDead, notifications, notificationsDead] = [
    'LedgerQueue',
    'LedgerDead',
    'AnalyticsQueue',
    'AnalyticsDead',
    'NotificationsQueue',
    'NotificationsDead',
  ].map((start) => resources('AWS::SQS::Queue').find(([id]) => id.startsWith(start))?.[1].Properties);

  it('are FIFO for the ledger, with the throughput of their groups, so that aggregates scale', () => {
    expect(ledger).toMatchObject({
      FifoQueue: true,
      DeduplicationScope: 'messageGroup',
      FifoThroughputLimit: 'perMessageGroupId',
      ContentBasedDeduplication: false,
    });
    expect(ledger).toHaveProperty('RedrivePolicy');
    expect(ledgerDead).toMatchObject({ FifoQueue: true });
    expect(queues).toHaveLength(6);
  });

  it('are standard queues for analytics, which EventBridge fills, and for notifications, whose order does not matter', () => {
    for (const queue of [analytics, notifications]) expect(queue).toHaveProperty('RedrivePolicy');
    for (const queue of [analytics, analyticsDead, notifications, notificationsDead]) {
      for (const name of ['FifoQueue', 'DeduplicationScope', 'FifoThroughputLimit', 'ContentBasedDeduplication']) {
        expect(queue).not.toHaveProperty(name);
      }
    }
  });

  it('get the envelope of each event of the service from its bus, and what cannot be delivered as dead letters', () => {
    // Those of AWS's own events are on the account's default bus.
    const own = resources('AWS::Events::Rule').filter(([, { Properties }]) => 'EventBusName' in Properties);
    const [[, bus], ...others] = own as [[string, Resource], ...unknown[]];
    expect(others).toEqual([]);
    const arnOf = (start: string) => ({ 'Fn::GetAtt': [expect.stringMatching(start), 'Arn'] });
    expect(bus.Properties).toMatchObject({
      EventBusName: { Ref: expect.stringMatching(/^Bus/) },
      EventPattern: { source: [definition.source] },
      Targets: [
        { Arn: arnOf('AnalyticsQueue'), InputPath: '$.detail', DeadLetterConfig: { Arn: arnOf('AnalyticsDead') } },
      ],
    });
  });

  it('keep messages as long as SQS can, encrypted', () => {
    for (const queue of queues) {
      expect(queue).toMatchObject({ MessageRetentionPeriod: 14 * DAY, SqsManagedSseEnabled: true });
    }
  });

  it('refuse callers without TLS', () => {
    const statements = resources('AWS::SQS::QueuePolicy').flatMap(
      ([, policy]) => policy.Properties['PolicyDocument'].Statement,
    );
    const refused = statements.filter(
      ({ Effect, Action, Condition }) =>
        Effect === 'Deny' && Action === 'sqs:*' && Condition.Bool['aws:SecureTransport'] === 'false',
    );
    expect(refused).toHaveLength(queues.length);
  });

  it("hide a message for six times the consumer's time-out, which AWS asks for", () => {
    for (const [consumer, queue] of [
      ['ledger', ledger],
      ['analytics', analytics],
      ['notifications', notifications],
    ] as const) {
      expect(queue?.['VisibilityTimeout']).toBe(6 * functionNamed(consumer)[1].Properties['Timeout']);
    }
  });

  it('hand batches of ten to the consumer, report single failures and bound its concurrency', () => {
    service.resourceCountIs('AWS::Lambda::EventSourceMapping', 3);
    service.allResourcesProperties('AWS::Lambda::EventSourceMapping', {
      BatchSize: 10,
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      ScalingConfig: { MaximumConcurrency: 10 },
      MaximumBatchingWindowInSeconds: Match.absent(),
    });
  });

  it('outlive their stack in prod only', () => {
    for (const [, queue] of resources('AWS::SQS::Queue')) {
      expect(queue.DeletionPolicy).toBe(stage === 'prod' ? 'RetainExceptOnCreate' : 'Delete');
    }
  });
});

describe('the number of receives', () => {
  const receivesOf = (consumerTimeout: Duration, outage?: Duration): number => {
    const stack = new Stack(new App({ builtinCloudFormationValidation: false }), 'Any');
    new EventQueue(stack, 'Queue', outage === undefined ? { consumerTimeout } : { consumerTimeout, outage });
    const queues = Object.values(Template.fromStack(stack).findResources('AWS::SQS::Queue'));
    return queues.find((queue) => 'RedrivePolicy' in queue['Properties'])?.['Properties'].RedrivePolicy.maxReceiveCount;
  };

  it.each([10, 30, 60])('outlasts six hours of a database that is away, with a time-out of %i s', (seconds) => {
    expect(receivesOf(Duration.seconds(seconds)) * seconds * 6).toBeGreaterThanOrEqual(6 * 3600);
  });

  it('rounds up', () => {
    expect(receivesOf(Duration.seconds(5), Duration.seconds(91))).toBe(4);
  });

  it('refuses an outage that SQS cannot count', () => {
    expect(() => receivesOf(Duration.seconds(1), Duration.hours(6))).toThrow(
      /3600 receives are needed.*SQS allows 1000/,
    );
  });
});
