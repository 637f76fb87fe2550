import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Topic } from 'aws-cdk-lib/aws-sns';
import { describe, expect, it } from 'vitest';
import { KeyAtRisk, SealingKeys } from '../../infra/index.ts';
import type { Statement } from './rights.ts';
import { emptyApp, synthesise } from './synthesised.ts';

type Resources = Readonly<Record<string, { readonly Type: string; readonly Properties?: unknown }>>;

/** A service that a policy lets in, and by which condition it is told for whom the service acts. */
interface Admission {
  readonly where: string;
  readonly type: string;
  readonly service: string;
  readonly boundBy: readonly string[];
}

/** Where a service may act for anybody, and why that is no way in. */
const EXCEPTIONS: readonly { readonly type: string; readonly service: string; readonly reason: string }[] = [
  {
    type: 'AWS::IAM::Role',
    service: 'lambda.amazonaws.com',
    reason:
      'Lambda takes a role only from who may iam:PassRole it, which is within the account; and the code of a function in a VPC is attached before there is a function whose ARN could be named',
  },
];

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]);

/** Every statement of every policy within a value, wherever it stands. */
function statementsIn(value: unknown): Statement[] {
  if (typeof value !== 'object' || value === null) return [];
  const own = list((value as { Statement?: unknown }).Statement ?? []).filter(
    (it): it is Statement => typeof it === 'object' && it !== null && 'Effect' in it,
  );
  return [...own, ...Object.values(value).flatMap(statementsIn)];
}

const SOURCE = /^aws:source(?:account|arn|orgid)$/i;
const BINDING = /^(?:String|Arn)(?:Equals|Like)$/;

/** Source conditions that say something: a wildcard for the account would admit everybody. */
function boundBy({ Condition = {} }: Statement): string[] {
  return Object.entries(Condition).flatMap(([operator, keys]) =>
    Object.entries(keys)
      .filter(([key, wanted]) => BINDING.test(operator) && SOURCE.test(key) && list(wanted).every(namesAccount))
      .map(([key]) => key),
  );
}

/** An account of twelve digits, the one of the stack, or what is of a resource of the stack. */
function namesAccount(value: unknown): boolean {
  return /\d{12}|AWS::AccountId|Fn::GetAtt|"Ref"/.test(JSON.stringify(value));
}

function admissions(resources: Resources): Admission[] {
  return Object.entries(resources).flatMap(([where, { Type: type, Properties = {} }]) => {
    const found = statementsIn(Properties)
      .filter(({ Effect, Principal }) => Effect === 'Allow' && typeof Principal === 'object')
      .flatMap((statement) =>
        list((statement.Principal as { Service?: unknown }).Service ?? []).map((service) => ({
          where,
          type,
          service: String(service),
          boundBy: boundBy(statement),
        })),
      );
    if (type !== 'AWS::Lambda::Permission') return found;
    const { Principal, SourceArn, SourceAccount } = Properties as Record<string, unknown>;
    const sources = { SourceArn, SourceAccount };
    const bound = Object.entries(sources).filter(([, value]) => value !== undefined && namesAccount(value));
    return [...found, { where, type, service: String(Principal), boundBy: bound.map(([name]) => name) }];
  });
}

const excepted = ({ type, service }: Admission) =>
  EXCEPTIONS.find((exception) => exception.type === type && exception.service === service);

const unbound = (resources: Resources): string[] =>
  admissions(resources)
    .filter((admission) => admission.boundBy.length === 0 && excepted(admission) === undefined)
    .map(({ where, service }) => `${service} at ${where}`);

const resourcesOf = (template: Template): Resources => (template.toJSON() as { Resources: Resources }).Resources;

describe.each(['dev', 'prod'] as const)('services that policies of stage %s let in', (stage) => {
  const { data, service } = synthesise(stage);
  const resources = { ...resourcesOf(data), ...resourcesOf(service) };

  it('act for this account or a named resource only, so that nobody else can send them', () => {
    expect(unbound(resources)).toEqual([]);
  });

  it('are those that are known, in policies of topics, queues and roles, and in permissions of functions', () => {
    const found = admissions(resources).map(({ type, service: name }) => `${type} ${name}`);
    expect([...new Set(found)].toSorted()).toEqual([
      'AWS::IAM::Role lambda.amazonaws.com',
      'AWS::IAM::Role scheduler.amazonaws.com',
      'AWS::IAM::Role vpc-flow-logs.amazonaws.com',
      'AWS::Lambda::Permission apigateway.amazonaws.com',
      'AWS::SNS::TopicPolicy cloudwatch.amazonaws.com',
      'AWS::SNS::TopicPolicy events.amazonaws.com',
      'AWS::SQS::QueuePolicy events.amazonaws.com',
    ]);
  });

  it('have no exception that nothing needs', () => {
    const needed = new Set(admissions(resources).map(excepted));
    expect(EXCEPTIONS.filter((exception) => !needed.has(exception))).toEqual([]);
  });

  it.each([
    ['no condition', undefined],
    ['another condition', { Bool: { 'aws:SecureTransport': 'true' } }],
    ['any account', { ArnLike: { 'aws:SourceArn': 'arn:aws:events:*:*:rule/*' } }],
    ['all but one account', { StringNotEquals: { 'aws:SourceAccount': '111122223333' } }],
  ])('would be refused with %s', (_about, Condition) => {
    const [id, topic] = Object.entries(resources).find(([, { Type }]) => Type === 'AWS::SNS::TopicPolicy')!;
    const Statement = [
      { Effect: 'Allow', Principal: { Service: 's.amazonaws.com' }, Action: 'sns:Publish', Condition },
    ];
    expect(unbound({ [id]: { ...topic, Properties: { PolicyDocument: { Statement } } } })).toEqual([
      `s.amazonaws.com at ${id}`,
    ]);
  });
});

describe('a rule that tells of keys', () => {
  const env = { account: '123456789012', region: 'eu-central-1' };

  it('publishes as itself; from another stack than the topic, as any rule of the account', () => {
    const app = emptyApp();
    const home = new Stack(app, 'Home', { env });
    const away = new Stack(app, 'Away', { env });
    const topic = new Topic(home, 'Topic');
    const keys = new SealingKeys(away, 'Keys', { vaultName: 'shop' });
    new KeyAtRisk(away, 'KeyAtRisk', { keys, topic });
    const nearby = new Topic(away, 'Nearby');
    new KeyAtRisk(away, 'Second', { keys, topic: nearby });
    const sources = (stack: Stack) =>
      Object.values(Template.fromStack(stack).findResources('AWS::SNS::TopicPolicy')).flatMap(({ Properties }) =>
        (Properties['PolicyDocument'].Statement as Statement[]).map(({ Condition }) => Condition?.['ArnLike']),
      );
    expect(sources(home)).toEqual([{ 'aws:SourceArn': 'arn:aws:events:eu-central-1:123456789012:rule/*' }]);
    expect(sources(away)).toEqual([{ 'aws:SourceArn': { 'Fn::GetAtt': [expect.stringMatching(/^Second/), 'Arn'] } }]);
  });
});
