import { describe, expect, it } from 'vitest';
import { LOCAL_PASSWORD, type Resource, synthesise, variablesOf } from './synthesised.ts';

interface Statement {
  readonly Effect: string;
  readonly Action: string | string[];
  readonly Resource: unknown;
}

const list = <T>(value: T | T[]): T[] => (Array.isArray(value) ? value : [value]);

const statementsIn = ({ Properties }: Resource): Statement[] => Properties['PolicyDocument'].Statement;

const DESCRIBE = ['ec2:DescribeNetworkInterfaces', 'ec2:DescribeSubnets'];
const CHANGE = [
  'ec2:AssignPrivateIpAddresses',
  'ec2:CreateNetworkInterface',
  'ec2:DeleteNetworkInterface',
  'ec2:UnassignPrivateIpAddresses',
];
/** A part of an ARN that is known in the account only. */
const here = (service: string, rest: string) => ({
  'Fn::Join': [
    '',
    ['arn:', { Ref: 'AWS::Partition' }, `:${service}:`, { Ref: 'AWS::Region' }, ':', { Ref: 'AWS::AccountId' }, rest],
  ],
});

describe.each(['dev', 'prod', 'local'] as const)('grants of stage %s', (stage) => {
  const { resources, functionNamed, data, service } = synthesise(stage);
  const policies = resources('AWS::IAM::Policy');
  const functions = resources('AWS::Lambda::Function');

  const statementsOfRole = (role: string): Statement[] =>
    policies
      .filter(([, { Properties }]) => Properties['Roles'].some(({ Ref }: { Ref: string }) => Ref === role))
      .flatMap(([, policy]) => statementsIn(policy));
  const statementsOf = (name: string): Statement[] =>
    statementsOfRole(functionNamed(name)[1].Properties['Role']['Fn::GetAtt'][0]);
  const actionsOf = (name: string): Set<string> =>
    new Set(
      statementsOf(name)
        .filter(({ Effect }) => Effect === 'Allow')
        .flatMap(({ Action }) => list(Action)),
    );
  const LOGS = ['logs:CreateLogStream', 'logs:PutLogEvents'];
  // What Lambda needs for the interfaces of a function in a VPC.
  const INTERFACES = [...DESCRIBE, ...CHANGE];
  const CONNECT = stage === 'local' ? [] : ['rds-db:connect', ...INTERFACES];

  it('let the relay send to its queues and its bus, ask whether they exist, and nothing else', () => {
    expect(actionsOf('relay')).toEqual(
      new Set([
        ...LOGS,
        ...CONNECT,
        'events:DescribeEventBus',
        'events:PutEvents',
        'sqs:GetQueueAttributes',
        'sqs:GetQueueUrl',
        'sqs:SendMessage',
      ]),
    );
    const queues = statementsOf('relay')
      .filter(({ Action }) => list(Action).includes('sqs:SendMessage'))
      .flatMap(({ Resource }) => list(Resource))
      .map((resource) => /(Ledger|Notifications)Queue.*Arn/.exec(JSON.stringify(resource))?.[1]);
    expect(queues).toHaveLength(2);
    expect(new Set(queues)).toEqual(new Set(['Ledger', 'Notifications']));
    const buses = statementsOf('relay').filter(({ Action }) => list(Action).some((it) => it.startsWith('events:')));
    expect(buses).toHaveLength(1);
    expect(JSON.stringify(buses[0]?.Resource)).toMatch(/^\{"Fn::ImportValue":".*Bus.*Arn.*"\}$/);
  });

  it('let only EventBridge put into the queue of analytics, and for the rule of its bus alone', () => {
    const allowed = resources('AWS::SQS::QueuePolicy')
      .flatMap(([, policy]) => statementsIn(policy) as (Statement & { Principal: object; Condition: object })[])
      .filter(({ Effect }) => Effect === 'Allow');
    const [rule] = resources('AWS::Events::Rule').map(([id]) => id);
    expect(allowed).toHaveLength(2);
    for (const { Principal, Condition } of allowed) {
      expect(Principal).toEqual({ Service: 'events.amazonaws.com' });
      expect(Condition).toEqual({ ArnEquals: { 'aws:SourceArn': { 'Fn::GetAtt': [rule, 'Arn'] } } });
    }
  });

  const KEYS: Readonly<Record<string, string[]>> = {
    api: ['kms:Decrypt', 'kms:GenerateDataKey', 's3:GetObject', 's3:ListBucket', 's3:PutObject'],
    ledger: ['kms:Decrypt', 's3:GetObject', 's3:ListBucket'],
    notifications: ['kms:Decrypt', 's3:GetObject', 's3:ListBucket'],
    janitor: ['kms:Decrypt', 'kms:Encrypt', 'kms:GenerateDataKey', 's3:GetObject', 's3:ListBucket', 's3:PutObject'],
  };

  it.each(['ledger', 'analytics', 'notifications'])('let %s receive and acknowledge, never send', (name) => {
    expect(actionsOf(name)).toEqual(
      new Set([
        ...LOGS,
        ...CONNECT,
        ...(KEYS[name] ?? []),
        'sqs:ChangeMessageVisibility',
        'sqs:DeleteMessage',
        'sqs:GetQueueAttributes',
        'sqs:GetQueueUrl',
        'sqs:ReceiveMessage',
      ]),
    );
  });

  it.each(['api', 'monitor', 'migrate'])('let %s touch no queue at all: only the database, and its keys', (name) => {
    expect(actionsOf(name)).toEqual(new Set([...LOGS, ...CONNECT, ...(KEYS[name] ?? [])]));
  });

  it('give each function a database user of its own', () => {
    const users = functions.map(([, fn]) => variablesOf(fn)['DATABASE_USER']).filter((user) => user !== undefined);
    const names = [
      'analytics',
      'api',
      'janitor',
      'ledger',
      'migrator',
      'monitor',
      'notifications',
      'operator',
      'relay',
    ];
    expect(users).toHaveLength(names.length);
    expect(new Set(users)).toEqual(new Set(names.map((name) => `sealed_${name}`)));
    if (stage === 'local') return;
    for (const name of ['analytics', 'api', 'janitor', 'ledger', 'monitor', 'notifications', 'operator', 'relay']) {
      const connect = statementsOf(name).find(({ Action }) => Action === 'rds-db:connect');
      expect(JSON.stringify(connect?.Resource)).toMatch(
        new RegExp(`:dbuser:",\\{"Fn::ImportValue":"[^"]*DBClusterResourceId[^"]*"\\},"/sealed_${name}"`),
      );
    }
  });

  it('let the janitor add to the archive of events, and neither read nor delete there; rotate keys, and add to the log of erasures', () => {
    expect(actionsOf('janitor')).toEqual(new Set([...LOGS, ...CONNECT, ...(KEYS['janitor'] ?? [])]));
    const added = statementsOf('janitor').filter(({ Action }) => Action === 's3:PutObject');
    expect(added).toHaveLength(stage === 'dev' ? 0 : 1);
  });

  it('let Lambda, with the role of a function, handle its network interfaces, and its code do nothing of that', () => {
    for (const name of [
      'relay',
      'monitor',
      'janitor',
      'migrate',
      'ledger',
      'analytics',
      'notifications',
      'api',
      'operator',
    ]) {
      const statements = statementsOf(name).filter(({ Action }) => list(Action).some((it) => it.startsWith('ec2:')));
      expect(statements).toEqual(
        stage === 'local'
          ? []
          : [
              { Effect: 'Allow', Action: DESCRIBE, Resource: '*' },
              { Effect: 'Allow', Action: CHANGE, Resource: here('ec2', ':*/*') },
              {
                Effect: 'Deny',
                Action: [...DESCRIBE, ...CHANGE].toSorted(),
                Resource: '*',
                Condition: { ArnLike: { 'lambda:SourceFunctionArn': here('lambda', ':function:*') } },
              },
            ],
      );
    }
  });

  it('allow nothing on everything but that, and what is not named in full only below a prefix: adding to the archive, reading the log of erasures', () => {
    const allowed = policies
      .flatMap(([, policy]) => statementsIn(policy))
      .filter(({ Effect, Action }) => Effect === 'Allow' && !list(Action).every((it) => it.startsWith('ec2:')))
      .map(({ Action, Resource }) => ({ Action, Resource }));
    expect(allowed.length).toBeGreaterThan(8);
    const below = (bucket: string, objects: string) => ({
      'Fn::Join': [
        '',
        [
          {
            'Fn::ImportValue': expect.stringMatching(
              new RegExp(`^sealed-outbox-${stage}-data:ExportsOutputFnGetAtt${bucket}Bucket\\w+Arn\\w+$`),
            ) as string,
          },
          `/${objects}`,
        ],
      ],
    });
    const expected = [
      { Action: 's3:GetObject', Resource: below('Erasures', 'entry/*') },
      { Action: 's3:GetObject', Resource: below('Erasures', 'entry/*') },
      {
        Action: ['s3:GetObject', 's3:PutObject'],
        Resource: [below('Erasures', 'entry/*'), below('Erasures', 'subject-key/000001.json')],
      },
      ...(stage === 'dev' ? [] : [{ Action: 's3:PutObject', Resource: below('Archive', 'events/*') }]),
      { Action: ['s3:GetObject', 's3:PutObject'], Resource: below('Erasures', 'entry/*') },
      {
        Action: 's3:GetObject',
        Resource:
          stage === 'dev' ? below('Erasures', 'entry/*') : [below('Archive', 'events/*'), below('Erasures', 'entry/*')],
      },
      {
        Action: ['s3:GetObject', 's3:PutObject'],
        Resource: [below('Erasures', 'entry/*'), below('Erasures', 'subject-key/000001.json')],
      },
    ];
    expect(allowed.filter((statement) => JSON.stringify(statement).includes('*'))).toEqual(expected);
  });

  it("use no ready-made policy, but for CDK's own function behind the trigger", () => {
    const roles = resources('AWS::IAM::Role').filter(([, { Properties }]) => 'ManagedPolicyArns' in Properties);
    expect(roles.map(([id]) => id)).toEqual([expect.stringContaining('TriggerCustomResourceProvider')]);
  });

  it('let a schedule start its own function only', () => {
    for (const [, { Properties }] of resources('AWS::Scheduler::Schedule')) {
      expect(statementsOfRole(Properties['Target'].RoleArn['Fn::GetAtt'][0])).toEqual([
        { Effect: 'Allow', Action: 'lambda:InvokeFunction', Resource: Properties['Target'].Arn },
      ]);
    }
  });

  it('hold a password on this machine only', () => {
    const text = JSON.stringify([data.toJSON(), service.toJSON()]);
    expect(text.includes('DATABASE_PASSWORD')).toBe(stage === 'local');
    expect(text.includes(LOCAL_PASSWORD)).toBe(stage === 'local');
    const auth = functions.map(([, fn]) => variablesOf(fn)['DATABASE_AUTH']).filter((kind) => kind !== undefined);
    expect(new Set(auth)).toEqual(new Set([stage === 'local' ? 'password' : 'iam']));
  });
});
