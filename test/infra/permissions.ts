import { table } from '../support/document-tables.ts';
import { functionRights, type FunctionRights, loginRights, otherRoles, resourceRights, type Right } from './rights.ts';
import type { Synthesised } from './synthesised.ts';

/** What stands in docs/permissions.md between `<!-- name -->` and `<!-- /name -->`. */
export type Tables = Readonly<
  Record<'every-function' | 'functions' | 'database' | 'others' | 'resources' | 'wildcards', string>
>;

/** Why a right names no single resource: what its row must hold, and the reason. */
const REASONS: readonly (readonly [row: RegExp, reason: string])[] = [
  [/may .*ec2:Describe/, 'EC2 has no resources for these calls. Lambda makes them to attach the function to the VPC'],
  [
    /may .*ec2:CreateNetworkInterface/,
    'the interfaces do not exist yet, and Lambda names them; of this account and region only',
  ],
  [
    /ArchiveBucket\/events\/\*, ErasuresBucket\/entry\/\*$/,
    'one object for each page of events, and for each number: the prefixes are as narrow as S3 can be told',
  ],
  [/ on ErasuresBucket\/entry\/\*/, 'one object for each number: the prefix is as narrow as S3 can be told'],
  [/ArchiveBucket\/events\/\*$/, 'one object for each page of events: the prefix is as narrow as S3 can be told'],
  [
    /this account's IAM may kms:\* on (Keys|Cluster)Key: \*/,
    "`*` in a key's policy is the key itself. Without this statement no policy of a role could allow anything, and nobody could repair the key",
  ],
  [
    /everybody may \* on Network\w+: \*/,
    "an endpoint's policy only narrows what roles have: here to callers of this account, and for S3 to its buckets. Each role's own policy names actions and resources",
  ],
  [
    /TriggerCustomResource\w+ may all of /,
    "CDK's own handler behind the trigger: the policy is CDK's and allows writing logs. The handler runs at deployments only",
  ],
  [
    /TriggerCustomResource\w+ may lambda:InvokeFunction on DatabaseMigrate:\*/,
    'any version of the one function: a deployment invokes the version that it has just made',
  ],
];

const text = ({ who, effect, actions, on }: Right): string =>
  `${who} ${effect} ${actions.join(', ')} on ${on.join(', ')}`;

/** A refusal may be of everything. */
export const isWild = ({ effect, actions, on }: Right): boolean =>
  effect === 'may' && [...actions, ...on].some((part) => part.includes('*'));

/** Every right of the templates. */
export function allRights(from: Synthesised): Right[] {
  return [...functionRights(from).flatMap(({ rights }) => rights), ...otherRoles(from), ...resourceRights(from)];
}

/** The reasons that hold for a right; one with `*` must have exactly one. */
export function reasonsFor(right: Right): string[] {
  return REASONS.filter(([row]) => row.test(text(right))).map(([, reason]) => reason);
}

/** Reasons that no right of these templates has any more. */
export function unusedReasons(rights: readonly Right[]): string[] {
  return REASONS.filter(([row]) => !rights.some((right) => isWild(right) && row.test(text(right)))).map(
    ([, reason]) => reason,
  );
}

const code = (values: readonly string[]): string => values.map((value) => `\`${value}\``).join(', ');
const cells = ({ effect, actions, on, onlyIf }: Right): string[] => [
  effect === 'may' ? code(actions) : `**must not** ${code(actions)}`,
  on.map((resource) => (resource.startsWith('its ') ? resource : `\`${resource}\``)).join(', '),
  onlyIf.map((condition) => `\`${condition}\``).join('; ') || '–',
];

const same = (a: Right, b: Right): boolean => text({ ...a, who: '' }) === text({ ...b, who: '' });

/** What every function has, and what each has beside. */
function split(functions: readonly FunctionRights[]): { common: Right[]; own: Right[] } {
  const [first, ...rest] = functions;
  const common = (first?.rights ?? []).filter((right) =>
    rest.every(({ rights }) => rights.some((other) => same(right, other))),
  );
  const own = functions.flatMap(({ rights }) => rights.filter((right) => !common.some((other) => same(right, other))));
  return { common, own };
}

/** Rows that say the same of several are one row. */
function grouped(rights: readonly Right[]): [who: string, right: Right][] {
  const groups = Map.groupBy(rights, (right) => JSON.stringify({ ...right, who: '' }));
  return [...groups.values()].map((group) => [[...new Set(group.map(({ who }) => who))].join(', '), group[0] as Right]);
}

export function tables(from: Synthesised): Tables {
  const functions = functionRights(from);
  const { common, own } = split(functions);
  const wild = allRights(from).filter(isWild);
  return {
    'every-function': table(['AWS actions', 'on', 'only if'], common.map(cells)),
    functions: table(
      ['function', 'AWS actions', 'on', 'only if'],
      own.map((right) => [right.who, ...cells(right)]),
    ),
    database: table(
      ['user', 'database roles', 'opens classes', 'makes and opens keys of classes', 'connections'],
      loginRights(from).map(({ user, roles, connections, vault }) => [
        `\`${user}\``,
        code(roles),
        code(vault?.reads ?? []) || '–',
        code(vault?.creates ?? []) || '–',
        String(connections ?? 'no limit'),
      ]),
    ),
    others: table(
      ['role', 'AWS actions', 'on', 'only if'],
      otherRoles(from).map((right) => [`\`${right.who}\``, ...cells(right)]),
    ),
    resources: table(
      ['who', 'AWS actions', 'on', 'only if'],
      resourceRights(from).map((right) => [right.who, ...cells(right)]),
    ),
    wildcards: table(
      ['who', 'AWS actions', 'on', 'why'],
      grouped(wild).map(([who, right]) => [who, ...cells(right).slice(0, 2), reasonsFor(right).join('; ')]),
    ),
  };
}
