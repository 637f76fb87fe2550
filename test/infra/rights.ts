import { type Resource, type Synthesised, variablesOf } from './synthesised.ts';

/** One statement of a policy, in words. */
export interface Right {
  /** Role, service or account that may, or must not. */
  readonly who: string;
  readonly effect: 'may' | 'must not';
  readonly actions: readonly string[];
  /** Names of the template, or ARNs where it has none. */
  readonly on: readonly string[];
  /** Under which conditions; empty: always. */
  readonly onlyIf: readonly string[];
}

/** Rights of the role of a function, by the name that its log lines carry. */
export interface FunctionRights {
  readonly name: string;
  readonly id: string;
  readonly rights: readonly Right[];
}

export interface Statement {
  readonly Effect: 'Allow' | 'Deny';
  readonly Principal?: string | Readonly<Record<string, unknown>>;
  readonly Action: string | readonly string[];
  readonly Resource?: unknown;
  readonly Condition?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

interface Policy {
  readonly Statement: readonly Statement[];
}

/** How an intrinsic function's value is written, given the logical id that it points to and the attribute asked for. */
type NameOf = (id: string, attribute: string | undefined) => string;

const list = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [value]);

/** The logical id and the attribute behind the name under which the data stack exports it. */
function exported({ data }: Synthesised, name: string): readonly [id: string, attribute: string | undefined] {
  const outputs = Object.values(
    data.toJSON()['Outputs'] as Record<string, { Value: Intrinsic; Export?: { Name: string } }>,
  );
  const { Value } = outputs.find(({ Export }) => Export?.Name === name)!;
  return Value['Fn::GetAtt'] ?? [Value.Ref!, undefined];
}

interface Intrinsic {
  readonly Ref?: string;
  readonly 'Fn::GetAtt'?: readonly [string, string];
  readonly 'Fn::Join'?: readonly [string, readonly unknown[]];
  readonly 'Fn::Sub'?: string;
  readonly 'Fn::ImportValue'?: string;
}

/** A value of a template with CloudFormation's functions put in, as far as policies use them. */
export function resolved(value: unknown, from: Synthesised, nameOf: NameOf): unknown {
  const inner = (part: unknown): unknown => resolved(part, from, nameOf);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(inner);
  const {
    Ref,
    'Fn::GetAtt': attribute,
    'Fn::Join': join,
    'Fn::Sub': sub,
    'Fn::ImportValue': imported,
  } = value as Intrinsic;
  if (join !== undefined) return join[1].map(inner).join(join[0]);
  if (sub !== undefined) return sub.replaceAll(/\$\{(\w+::\w+)\}/g, (_, name: string) => nameOf(name, undefined));
  if (imported !== undefined) return nameOf(...exported(from, imported));
  if (attribute !== undefined) return nameOf(...attribute);
  if (Ref !== undefined) return nameOf(Ref, undefined);
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, inner(part)]));
}

/** `LedgerQueue1C2C8303` is `LedgerQueue`; what is known in the account only is left out of ARNs. */
const spoken: NameOf = (id) => (id.startsWith('AWS::') ? `\${${id}}` : id.replace(/[0-9A-F]{8}$/, ''));

function short(arn: string): string {
  return arn
    .replace(/^arn:\$\{AWS::Partition\}:([\w-]+):(?:\$\{AWS::Region\})?:(?:\$\{AWS::AccountId\})?:/, '$1:')
    .replace('${AWS::AccountId}', 'this account');
}

function rightOf(who: string, statement: Statement, from: Synthesised): Right {
  const { Effect, Action, Resource = [], Condition = {} } = resolved(statement, from, spoken) as Statement;
  return {
    who,
    effect: Effect === 'Allow' ? 'may' : 'must not',
    actions: list(Action).map(String),
    on: list(Resource).map((resource) => short(String(resource))),
    onlyIf: Object.entries(Condition).flatMap(([operator, keys]) =>
      Object.entries(keys).map(
        ([key, wanted]) =>
          `${key} ${WORDS[operator] ?? operator} ${list(wanted)
            .map((it) => short(String(it)))
            .join(' or ')}`,
      ),
    ),
  };
}

const WORDS: Readonly<Record<string, string>> = {
  StringEquals: '=',
  StringNotEquals: '≠',
  ArnEquals: '=',
  ArnLike: 'like',
  Bool: 'is',
  NumericLessThan: '<',
  Null: 'absent is',
};

/** The statements of a role's policies, as they stand in the template. */
export function statementsOfRole(role: string, from: Synthesised): readonly Statement[] {
  const attached = from
    .resources('AWS::IAM::Policy')
    .filter(([, { Properties }]) => Properties['Roles'].some(({ Ref }: Intrinsic) => Ref === role))
    .map(([, { Properties }]) => Properties['PolicyDocument'] as Policy);
  const { Properties } = from.resources('AWS::IAM::Role').find(([id]) => id === role)![1];
  const inline = ((Properties['Policies'] ?? []) as { PolicyDocument: Policy }[]).map(
    (policy) => policy.PolicyDocument,
  );
  return [...attached, ...inline].flatMap(({ Statement }) => Statement);
}

function ofRole(role: string, who: string, from: Synthesised): Right[] {
  const { Properties } = from.resources('AWS::IAM::Role').find(([id]) => id === role)![1];
  const managed = ((Properties['ManagedPolicyArns'] ?? []) as unknown[]).map((arn) => ({
    who,
    effect: 'may' as const,
    actions: [
      `all of AWS's ${String(resolved(arn, from, spoken))
        .split('/')
        .at(-1)}`,
    ],
    on: ['*'],
    onlyIf: [],
  }));
  return [...statementsOfRole(role, from).map((statement) => rightOf(who, statement, from)), ...managed];
}

export const roleOf = ({ Properties }: Resource): string => Properties['Role']['Fn::GetAtt'][0];
const OWN_LOGS = 'its own log group';

/** The functions of both stacks with a name of their own; CDK's handler behind the trigger has none. */
export function functionRights(from: Synthesised): FunctionRights[] {
  return from
    .resources('AWS::Lambda::Function')
    .filter(([, fn]) => variablesOf(fn)['POWERTOOLS_SERVICE_NAME'] !== undefined)
    .map(([id, fn]) => {
      const name = variablesOf(fn)['POWERTOOLS_SERVICE_NAME'] as string;
      const logs = String(resolved(fn.Properties['LoggingConfig'].LogGroup, from, spoken));
      const rights = ofRole(roleOf(fn), name, from);
      return {
        name,
        id,
        rights: rights.map((right) => ({ ...right, on: right.on.map((on) => (on === logs ? OWN_LOGS : on)) })),
      };
    })
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** The other roles: of schedules, of CDK's handler, of the VPC's flow logs. */
export function otherRoles(from: Synthesised): Right[] {
  const ofFunctions = new Set(
    functionRights(from).map(({ id }) => roleOf(from.resources('AWS::Lambda::Function').find(([it]) => it === id)![1])),
  );
  return from
    .resources('AWS::IAM::Role')
    .filter(([id]) => !ofFunctions.has(id))
    .flatMap(([id]) => ofRole(id, spoken(id, undefined), from));
}

/** Resource types whose policies stand in a property, and which property says of what they are. */
const POLICIES: readonly (readonly [type: string, document: string, of?: string])[] = [
  ['AWS::KMS::Key', 'KeyPolicy'],
  ['AWS::SQS::QueuePolicy', 'PolicyDocument', 'Queues'],
  ['AWS::S3::BucketPolicy', 'PolicyDocument', 'Bucket'],
  ['AWS::SNS::TopicPolicy', 'PolicyDocument', 'Topics'],
  ['AWS::EC2::VPCEndpoint', 'PolicyDocument'],
];

/** What resources say themselves of who may use them; `on` is the resource that says it, where the statement means itself. */
export function resourceRights(from: Synthesised): Right[] {
  const policies = POLICIES.flatMap(([type, document, of]) =>
    from.resources(type).flatMap(([id, { Properties }]) => {
      const owner = of === undefined ? spoken(id, undefined) : list(resolved(Properties[of], from, spoken)).join(', ');
      return (Properties[document] as Policy).Statement.map((statement) => {
        const right = rightOf(principal(statement, from), statement, from);
        return { ...right, on: right.on.map((on) => (on === '*' ? `${owner}: *` : on)) };
      });
    }),
  );
  const invocations = from.resources('AWS::Lambda::Permission').map(([, { Properties }]) => ({
    who: String(Properties['Principal']),
    effect: 'may' as const,
    actions: [String(Properties['Action'])],
    on: [String(resolved(Properties['FunctionName'], from, spoken))],
    onlyIf: [`aws:SourceArn like ${short(String(resolved(Properties['SourceArn'], from, spoken)))}`],
  }));
  return [...policies, ...invocations];
}

function principal({ Principal }: Statement, from: Synthesised): string {
  const named = resolved(Principal, from, spoken);
  if (named === '*') return 'everybody';
  return Object.values(named as Record<string, unknown>)
    .flatMap((who) => list(who).map(String))
    .map((who) => (who === '*' ? 'everybody' : who.endsWith(':root') ? "this account's IAM" : short(who)))
    .join(', ');
}

/** A login of the database, as the migrate function is told of it. */
export interface LoginRights {
  readonly user: string;
  readonly roles: readonly string[];
  readonly connections?: number;
  readonly vault?: {
    readonly reads: readonly string[];
    readonly creates: readonly string[];
    readonly indexes?: Readonly<Record<string, string>>;
  };
}

export function loginRights({ functionNamed }: Synthesised): LoginRights[] {
  return JSON.parse(variablesOf(functionNamed('migrate')[1])['DATABASE_LOGINS'] as string) as LoginRights[];
}
