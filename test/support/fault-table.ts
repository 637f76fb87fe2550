import { table } from './document-tables.ts';
import type { Shown } from './shown.ts';

/** What a function does under a fault. */
export interface Cell {
  readonly does: string;
  readonly shown: readonly Shown[];
}

const DATABASE = 'test/integration/functions/database-faults.test.ts';
const AWS = 'test/integration/functions/aws-faults.test.ts';
const KEYS = 'test/contract/sealing-errors.test.ts';
const PUBLISHER = 'test/support/publisher-conformance.ts';
const UNUSABLE = 'test/integration/destination-unusable.test.ts';
const OUTAGE = 'test/integration/failure-policy.test.ts';
const LONG = 'test/unit/relay/long-outage.test.ts';

type Functions<Name extends string> = Readonly<Record<Name, string>>;

/** The same fault shown for all functions by one table of tests. */
function row<Name extends string>(
  does: Functions<Name>,
  shown: readonly Shown[],
  more: Partial<Record<Name, readonly Shown[]>> = {},
): Record<Name, Cell> {
  const cells = Object.entries<string>(does).map(([name, text]) => [
    name,
    { does: text, shown: [...shown, ...(more[name as Name] ?? [])] },
  ]);
  return Object.fromEntries(cells) as Record<Name, Cell>;
}

const NOT_CONNECTED = {
  relay: 'tries again',
  monitor: 'fails',
  janitor: 'fails',
  migrate: 'fails',
  consumers: 'return',
  api: '503',
  operator: 'says so',
} as const;

/** Faults of the database, and what each function does. */
export const DATABASE_FAULTS: Readonly<Record<string, Record<keyof typeof NOT_CONNECTED, Cell>>> = {
  'it throttles: too many connections (53300)': row(NOT_CONNECTED, [[DATABASE, 'has too many connections']], {
    consumers: [
      ['test/integration/inbox/connections.test.ts', 'over the limit they return their messages to be tried again'],
    ],
  }),
  'it does not answer in time': row(NOT_CONNECTED, [[DATABASE, 'does not answer']], {
    consumers: [['test/integration/inbox/connections.test.ts', 'bounds a connection that is never made']],
    api: [['test/integration/sample/api-failure.test.ts', 'goes on after its idle connection went silent']],
  }),
  'it fails or is starting (57P03), or breaks the connection': row(
    NOT_CONNECTED,
    [
      [DATABASE, 'is starting'],
      [DATABASE, 'breaks the connection'],
    ],
    { relay: [['test/integration/connection-cut.test.ts', 'a relay whose connection is cut again and again']] },
  ),
  'it refuses an expired token (28000)': row(NOT_CONNECTED, [[DATABASE, 'refuses the token']]),
  'its name does not resolve': row(NOT_CONNECTED, [[DATABASE, 'has a name that does not resolve']]),
  'it fails over: all connections are cut, then it takes no writes for 30 seconds (25006)': row(
    { ...NOT_CONNECTED, monitor: 'measures', operator: 'says so' },
    [[DATABASE, 'fails as long as that lasts, and works right afterwards, in the same process']],
    {
      consumers: [
        [
          'test/integration/inbox/register.test.ts',
          'leaves a connection that leads to a former writer after a fail-over',
        ],
      ],
    },
  ),
  'the token expires while it is connected': row(
    {
      relay: 'goes on',
      monitor: 'goes on',
      janitor: 'goes on',
      migrate: 'goes on',
      consumers: 'go on',
      api: 'goes on',
      operator: 'goes on',
    },
    [
      [DATABASE, 'goes on with the connection that it has when its token is no longer taken'],
      ['test/unit/database/config.test.ts', 'makes a new IAM token at every connect'],
    ],
  ),
};

/** Readers of keys decide by class of the error alone; the API's and the consumers' own tests say what follows. */
const OF_KEYS: Partial<Record<'api' | 'consumers', readonly Shown[]>> = {
  api: [['test/integration/sample/personal-data.test.ts', 'asks the caller to come back, and writes nothing']],
  consumers: [
    [
      'test/integration/sample/sealed-consumers.test.ts',
      'waits where keys cannot be reached, and goes on when they can',
    ],
  ],
};

function awsRow(
  what: string,
  relay: readonly Shown[],
  keys: string,
): Record<'relay' | 'janitor' | 'consumers' | 'api' | 'operator', Cell> {
  return {
    relay: { does: 'waits', shown: relay },
    ...row({ janitor: 'fails', operator: 'says so' }, [[AWS, what]]),
    ...row({ consumers: 'return', api: '503' }, [[keys === what ? AWS : KEYS, keys]], OF_KEYS),
  };
}

/** Faults of SQS and EventBridge (relay, operator), KMS (API, consumers, janitor) and S3 (janitor). */
export const AWS_FAULTS: Readonly<Record<string, ReturnType<typeof awsRow>>> = {
  'it throttles': awsRow(
    'throttles',
    [
      [UNUSABLE, 'because it throttles'],
      [LONG, 'of a bus without order that throttles each entry'],
    ],
    'KMS throttles',
  ),
  'it does not answer in time': awsRow(
    'does not answer',
    [[PUBLISHER, 'does not answer: a TimeoutError']],
    'KMS does not answer in time',
  ),
  'it fails (5xx)': awsRow(
    'fails',
    [
      [PUBLISHER, 'is a proxy with a page of its own'],
      [LONG, 'ServiceUnavailable'],
    ],
    'KMS fails',
  ),
  'it breaks the connection': awsRow('breaks the connection', [[PUBLISHER, 'hangs up']], 'KMS cannot be reached'),
  'the credentials have expired': awsRow(
    'says that the credentials have expired',
    [
      [UNUSABLE, 'found by the preflight: one line with the remedy'],
      [OUTAGE, 'ExpiredToken'],
    ],
    'the credentials have expired',
  ),
  'its name does not resolve': awsRow(
    'has a name that does not resolve',
    [[AWS, 'a queue, a bus and a KMS key whose names do not resolve']],
    'has a name that does not resolve',
  ),
  'the credentials expire in the middle of a run': {
    relay: { does: 'waits', shown: [[UNUSABLE, 'found in the middle of a run']] },
    ...row({ janitor: 'fails', operator: 'says so' }, [[AWS, 'answered until then, says so']]),
    ...row({ consumers: 'go on with keys in memory', api: 'goes on with keys in memory' }, [
      [KEYS, 'the credentials have expired'],
      ['test/unit/sealing/keyring.test.ts', 'is used up to an hour while KMS says'],
    ]),
  },
};

/** As it stands in docs/failures.md. */
export function faultTables(): Record<string, string> {
  const written = (faults: Readonly<Record<string, Readonly<Record<string, Cell>>>>): string => {
    const names = Object.keys(Object.values(faults)[0] ?? {});
    return table(
      ['', ...names],
      Object.entries(faults).map(([fault, cells]) => [fault, ...names.map((name) => cells[name]?.does ?? '–')]),
    );
  };
  return { 'database-faults': written(DATABASE_FAULTS), 'aws-faults': written(AWS_FAULTS) };
}
