import type { Target } from './arguments.ts';

/** What becomes of a stage whose stacks are deleted. */
export interface Removal {
  /** Whether `npm run destroy` does it. A stage that keeps its data is taken down by hand, step by step. */
  readonly byCommand: boolean;
  /** What must be done before, in this order. */
  readonly first: readonly string[];
  /** What is gone afterwards. */
  readonly goes: readonly string[];
  /** What is still there, and is paid for. */
  readonly stays: readonly string[];
}

const AWS = 'aws cloudformation';

/** What deleting `stage` takes and leaves. Tests hold it against the templates. */
export function removalOf({ stage }: Pick<Target, 'stage'>): Removal {
  const outside = [
    'what is outside of the stacks: the stack CDKToolkit with its bucket of bundles, and what you have subscribed, granted or copied yourself',
  ];
  if (stage === 'dev') {
    return {
      byCommand: true,
      first: [
        'Empty the bucket of the log of erasures, all versions: CloudFormation deletes none that holds an object. It is the AWS::S3::Bucket of ' +
          `${AWS} describe-stack-resources --stack-name sealed-outbox-dev-data; the console's "Empty" takes the versions, too. It is empty where nobody was ever erased.`,
      ],
      goes: [
        'the database with all events, business rows and keys, and its automatic backups: no last snapshot is made',
        'queues, dead letters and what is in them; bus, topic and its subscriptions; log groups; functions, API, alarms; network',
      ],
      stays: [
        'the two KMS keys, for the seven days of their waiting period, in which their deletion can be cancelled: KMS takes no money for them',
        ...outside,
      ],
    };
  }
  const service = 'sealed-outbox-prod-service';
  const data = 'sealed-outbox-prod-data';
  return {
    byCommand: false,
    first: [
      'Stop what writes, and wait until nothing is pending, parked, blocked or held: npm run ops -- status --stack ' +
        service,
      `${AWS} update-termination-protection --no-enable-termination-protection --stack-name ${service}`,
      `${AWS} delete-stack --stack-name ${service}`,
      `The same two for ${data}, if what it holds is to be managed by hand from then on.`,
    ],
    goes: [
      'with the service stack: functions, schedules, API, alarms, roles. Events wait in the database, and nobody is told.',
      'with the data stack: rules of security groups and of the bus, routes, endpoints, NAT gateways with their addresses, roles, the rule that tells of changes to a key',
    ],
    stays: [
      'what holds data in the data stack, also without the stack: the Aurora cluster (deletion protection on, backups going on), its KMS key and that of the vault, queues, bus, topic, ' +
        'archive, log of erasures, log groups, VPC with subnets and security groups',
      'log groups of the service stack that were retained',
      'entries of the log of erasures, which nobody can delete for 90 days after they were written; no object can be removed earlier by anybody',
      ...outside,
    ],
  };
}

export function removalText(removal: Removal, { stage, account, region }: Target): string {
  const list = (title: string, lines: readonly string[], number = false): string[] =>
    lines.length === 0 ? [] : [title, ...lines.map((line, index) => `  ${number ? `${index + 1}.` : '-'} ${line}`), ''];
  return [
    `Stage ${stage} in account ${account}, ${region}.`,
    '',
    ...list('Before:', removal.first, true),
    ...list('Goes:', removal.goes),
    ...list('Stays:', removal.stays),
  ]
    .join('\n')
    .trimEnd();
}
