import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { AccountPrincipal, Role } from 'aws-cdk-lib/aws-iam';
import { describe, expect, it } from 'vitest';
import { operatorConfig } from '../../functions/operator/config.ts';
import { classes } from '../../functions/sample/catalogue/classes.ts';
import { erasable } from '../../functions/sample/catalogue/erasable.ts';
import { Operator, OutboxDatabase } from '../../infra/index.ts';
import { emptyApp, type Resource, synthesise, variablesOf } from './synthesised.ts';

interface Statement {
  readonly Action: string | string[];
  readonly Resource: unknown;
}

const list = <T>(value: T | T[]): T[] => (Array.isArray(value) ? value : [value]);
const statementsIn = ({ Properties }: Resource): Statement[] => Properties['PolicyDocument'].Statement;

describe.each(['dev', 'prod', 'local'] as const)('the operator of stage %s', (stage) => {
  const { resources, service, functionNamed } = synthesise(stage);
  const [id, operator] = functionNamed('operator');
  const policies = resources('AWS::IAM::Policy');
  const own = policies.filter(([, { Properties }]) =>
    Properties['Roles'].some(({ Ref }: { Ref: string }) => Ref === operator.Properties['Role']['Fn::GetAtt'][0]),
  );

  it('has the name by which the command line finds it, and says so', () => {
    expect(operator.Properties['FunctionName']).toBe(`sealed-outbox-${stage}-service-operator`);
    service.hasOutput('OperatorFunctionName', { Value: { Ref: id } });
  });

  it('takes dead letters out of their queues and puts them into the live ones, and never reads a live one', () => {
    const allowed = own.flatMap(([, policy]) => statementsIn(policy));
    const queuesOf = (action: string): string[] =>
      allowed
        .filter(({ Action }) => list(Action).includes(action))
        .flatMap((statement) => list(statement.Resource))
        .map((resource) => /FnGetAtt(\w+?)(?:[0-9A-F]{8})Arn/.exec(JSON.stringify(resource))?.[1] ?? 'what?')
        .toSorted();
    const dead = ['AnalyticsDeadLetters', 'LedgerDeadLetters', 'NotificationsDeadLetters'];
    const live = ['AnalyticsQueue', 'LedgerQueue', 'NotificationsQueue'];
    expect(queuesOf('sqs:ReceiveMessage')).toEqual(dead);
    expect(queuesOf('sqs:DeleteMessage')).toEqual(dead);
    expect(queuesOf('sqs:ChangeMessageVisibility')).toEqual(dead);
    expect(queuesOf('sqs:SendMessage')).toEqual(live);
    expect(queuesOf('sqs:GetQueueAttributes')).toEqual([...dead, ...live].toSorted());
    const connect = stage === 'local' ? [] : ['rds-db:connect'];
    // Network interfaces are Lambda's affair: grants.test.ts.
    const actions = allowed.flatMap(({ Action }) => list(Action)).filter((action) => !action.startsWith('ec2:'));
    expect(new Set(actions)).toEqual(
      new Set([
        'logs:CreateLogStream',
        'logs:PutLogEvents',
        ...connect,
        // To write erasures down, in the log and under its key.
        'kms:Decrypt',
        'kms:GenerateDataKey',
        's3:GetObject',
        's3:ListBucket',
        's3:PutObject',
        'sqs:ChangeMessageVisibility',
        'sqs:DeleteMessage',
        'sqs:GetQueueAttributes',
        'sqs:ReceiveMessage',
        'sqs:SendMessage',
      ]),
    );
  });

  it('uses the KMS key for the log of erasures, and for no class of data', () => {
    const conditions = own
      .flatMap(([, policy]) => statementsIn(policy) as (Statement & { Condition?: { StringEquals?: object } })[])
      .filter(({ Action }) => list(Action).some((action) => action.startsWith('kms:')))
      .map(({ Condition }) => Condition?.StringEquals);
    expect(conditions).toEqual([
      {
        'kms:EncryptionContext:vault': `sealed-outbox-${stage}`,
        'kms:EncryptionContext:purpose': 'erasure',
        'kms:EncryptionContext:class': 'erasure',
      },
    ]);
  });

  it('can be invoked by nobody whom IAM does not let: no address, no schedule, no policy of its own, no role of the stack', () => {
    const invokers = policies
      .flatMap(([, policy]) => statementsIn(policy))
      .filter(
        ({ Action, Resource }) =>
          list(Action).includes('lambda:InvokeFunction') && JSON.stringify(Resource).includes(id),
      );
    expect(invokers).toEqual([]);
    for (const type of [
      'AWS::Lambda::Permission',
      'AWS::Lambda::Url',
      'AWS::Scheduler::Schedule',
      'AWS::ApiGatewayV2::Integration',
    ]) {
      expect(resources(type).filter(([, resource]) => JSON.stringify(resource).includes(id))).toEqual([]);
    }
  });

  it('is never started again by itself', () => {
    service.hasResourceProperties('AWS::Lambda::EventInvokeConfig', {
      FunctionName: { Ref: id },
      MaximumEventAgeInSeconds: 60,
      MaximumRetryAttempts: 0,
    });
  });

  it('is set as its function reads it', () => {
    const queues = variablesOf(operator)['OPERATOR_QUEUES'];
    const text = queues['Fn::Join'][1]
      .map((part: unknown) => (typeof part === 'string' ? part : 'https://sqs.example/queue'))
      .join('');
    const config = operatorConfig({ ...variablesOf(operator), OPERATOR_QUEUES: text, OPERATOR_ARCHIVE: 'none' });
    expect(config).toMatchObject({ inbox: true, vault: true });
    expect(JSON.stringify(variablesOf(operator)['OPERATOR_ARCHIVE'] ?? 'none')).toMatch(
      stage === 'dev' ? /^"none"$/ : /"s3:\/\/".*ArchiveBucket/,
    );
    expect(config.erases).toEqual({ classes, erasable, keptSince: 'sample.kept_since' });
    const { ERASURE_DELAY_SECONDS } = variablesOf(functionNamed('api')[1]);
    expect(variablesOf(operator)['ERASURE_DELAY_SECONDS']).toBe(ERASURE_DELAY_SECONDS);
    expect(Object.keys(config.queues)).toEqual(['ledger', 'analytics', 'notifications']);
  });
});

describe('an operator of your own', () => {
  const stack = new Stack(emptyApp(), 'Own', { env: { account: '111122223333', region: 'eu-central-1' } });
  const database = new OutboxDatabase(stack, 'Database', {
    connection: { host: '127.0.0.1', port: 5432, name: 'outbox', auth: { kind: 'password', password: 'none' } },
    migrateEntry: 'functions/migrate/index.ts',
    migrator: 'sealed_migrator',
  });
  const operator = new Operator(stack, 'Operator', { installation: 'shop', database, inbox: false });
  operator.grantInvoke(new Role(stack, 'OnCall', { assumedBy: new AccountPrincipal('111122223333') }));
  const template = Template.fromStack(stack);

  it('has no rights on the inbox where that is in another database', () => {
    template.hasResourceProperties('AWS::Lambda::Function', {
      Environment: {
        Variables: { DATABASE_LOGINS: '[{"user":"sealed_operator","roles":["outbox_operator"],"connections":3}]' },
      },
    });
    template.hasResourceProperties('AWS::Lambda::Function', {
      FunctionName: 'shop-operator',
      Environment: { Variables: { OPERATOR_INBOX: 'false', OPERATOR_VAULT: 'false', OPERATOR_QUEUES: '{}' } },
    });
  });

  it('is invoked by the role that it was granted to', () => {
    const statements = Object.values(template.findResources('AWS::IAM::Policy')).flatMap((policy) =>
      statementsIn(policy as Resource),
    );
    expect(statements.filter(({ Action }) => list(Action).includes('lambda:InvokeFunction'))).toHaveLength(1);
  });
});
