import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { EventBridgeClient } from '@aws-sdk/client-eventbridge';
import { KMS } from '@aws-sdk/client-kms';
import { SQSClient } from '@aws-sdk/client-sqs';
import type { Context } from 'aws-lambda';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { classifyFailure } from '../../../shared/inbox/failure.ts';
import { eventBridgePublisher, sqsPublisher } from '../../../shared/outbox/index.ts';
import { failureClass } from '../../../shared/outbox/relay/failure-class.ts';
import { kmsKeys, sealingAnswer } from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import type { TestUser } from '../../support/logins.ts';
import { append, installCatalogue, thing } from '../../support/outbox.ts';
import { letAge, publishAll, remaining } from '../../support/retention.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const context = { awsRequestId: 'r', functionName: 'f', getRemainingTimeInMillis: () => 300_000 } as unknown as Context;

/** How AWS answers each call. */
type Answer = { readonly status: number; readonly type: string } | 'silent' | 'broken';
let answer: Answer = 'broken';
/** What is answered well before that: bodies, one for each call. */
let before: string[] = [];
let calls = 0;

const server = createServer((request, response) => {
  calls += 1;
  request.resume();
  const good = before.shift();
  if (good !== undefined) {
    response.writeHead(200, { 'content-type': 'application/x-amz-json-1.0' });
    response.end(good);
    return;
  }
  if (answer === 'silent') {
    // Nobody answers, and the time that the caller gives it is over at once.
    setImmediate(() => vi.advanceTimersByTime(15_000));
    return;
  }
  if (answer === 'broken') return void response.destroy();
  const { status, type } = answer;
  // S3 speaks XML, the others JSON; each SDK reads its own part.
  const json = request.headers['x-amz-target'] !== undefined;
  response.writeHead(status, { 'content-type': json ? 'application/x-amz-json-1.0' : 'application/xml' });
  response.end(json ? JSON.stringify({ __type: type, message: 'no' }) : `<Error><Code>${type}</Code></Error>`);
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const port = (server.address() as AddressInfo).port;

/** The environment that a function is deployed with. */
function setEnvironment(user: TestUser, more: Readonly<Record<string, string>>): void {
  const config = database.config(user);
  const variables = {
    DATABASE_HOST: config.host,
    DATABASE_PORT: String(config.port),
    DATABASE_NAME: config.database,
    DATABASE_USER: user,
    DATABASE_AUTH: 'password',
    DATABASE_PASSWORD: 'password' in config ? config.password : '',
    AWS_REGION: 'eu-central-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
    POWERTOOLS_LOG_LEVEL: 'SILENT',
    ...more,
  };
  for (const [name, value] of Object.entries(variables)) vi.stubEnv(name, value);
}

const KEY_ARN = 'arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab';
const PERSON = { kind: 'customer', id: 'C-1' };
const folder = mkdtempSync(join(tmpdir(), 'erasures-'));
const ERASES = {
  OPERATOR_VAULT: 'true',
  OPERATOR_ERASES: JSON.stringify({ classes: { tax: { erase: 'onRequest' } }, erasable: [] }),
  SEALING_VAULT: 'test',
  SEALING_KEY_ARN: KEY_ARN,
};

/** The AWS clients that the database's functions have, beside those of the relay and of readers of keys. */
const SERVICES = {
  'the janitor, whose archive': {
    user: 'sealed_janitor',
    endpoint: 'AWS_ENDPOINT_URL_S3',
    more: { JANITOR_ARCHIVE: 's3://archive', JANITOR_ALSO: '{}', INBOX_KEEP_DAYS: 'none' },
    run: janitor,
    ends: 'JANITOR_FAILED',
  },
  'the janitor, whose KMS': {
    user: 'sealed_rotator',
    endpoint: 'AWS_ENDPOINT_URL_KMS',
    more: {
      JANITOR_ARCHIVE: 'none',
      JANITOR_ALSO: '{}',
      OUTBOX_KEEP_DAYS: 'none',
      INBOX_KEEP_DAYS: 'none',
      SEALING_VAULT: 'test',
      SEALING_KEY_ARN: KEY_ARN,
    },
    run: janitor,
    ends: 'JANITOR_FAILED',
  },
  'the operator, whose queue': {
    user: 'sealed_operator',
    endpoint: 'AWS_ENDPOINT_URL_SQS',
    more: {
      OPERATOR_QUEUES: '{"ledger":{"queue":"http://127.0.0.1/1/ledger","deadLetters":"http://127.0.0.1/1/dead"}}',
    },
    run: () => operator({ command: 'dead-letters list', arguments: {} }),
    ends: 'OPERATION_FAILED',
  },
  'the operator who erases, whose log of erasures': {
    user: 'sealed_erasing_operator',
    endpoint: 'AWS_ENDPOINT_URL_S3',
    more: { ...ERASES, SEALING_ERASURE_LOG: 'erasures' },
    run: erase,
    ends: 'SEALING_UNAVAILABLE',
  },
  'the operator who erases, whose KMS': {
    user: 'sealed_erasing_operator',
    endpoint: 'AWS_ENDPOINT_URL_KMS',
    more: { ...ERASES, SEALING_ERASURE_LOG: `file://${folder}` },
    run: erase,
    ends: expect.stringMatching(/^SEALING_(?:UNAVAILABLE|THROTTLED)$/),
  },
} as const satisfies Record<
  string,
  {
    user: TestUser;
    endpoint: string;
    more: Readonly<Record<string, string>>;
    run: () => Promise<string>;
    ends: unknown;
  }
>;

async function janitor(): Promise<string> {
  const { handler } = await import('../../../functions/janitor/index.ts');
  const rotate = process.env['SEALING_VAULT'] === undefined ? [] : ['contact'];
  try {
    await handler({ rotate }, context);
    return 'pruned';
  } catch (error) {
    return codeOf(error);
  }
}

/** Of an error that has one. */
const codeOf = (error: unknown): string => (error as { code?: string }).code ?? 'no code';

async function operator(request: Readonly<Record<string, unknown>>): Promise<string> {
  const { handler } = await import('../../../functions/operator/index.ts');
  const told = await handler({ ...request, by: 'arn:aws:iam::111122223333:user/ada' }, context);
  return told.ok ? 'done' : told.code;
}

function erase(): Promise<string> {
  return operator({ command: 'erase', arguments: PERSON, reason: 'r' });
}

const FAULTS: readonly (readonly [what: string, answer: Answer | 'no such name'])[] = [
  ['throttles', { status: 400, type: 'ThrottlingException' }],
  ['does not answer', 'silent'],
  ['fails', { status: 500, type: 'InternalFailure' }],
  ['breaks the connection', 'broken'],
  ['says that the credentials have expired', { status: 403, type: 'ExpiredTokenException' }],
  ['has a name that does not resolve', 'no such name'],
];

beforeAll(async () => {
  await installCatalogue(owner);
  await append(database.pool('sealed_writer'), thing('a'));
  await publishAll(owner);
  await letAge(owner, 15);
  await owner.query(`select vault.set_access('sealed_rotator', '{}', '{contact}')`);
  await owner.query(`insert into vault.branch_key (class, version, kms_key, wrapped) values ('tax', 1, $1, '\\x00')`, [
    KEY_ARN,
  ]);
  await owner.query(
    `insert into vault.subject_key (class, key_id, version, subject_kind, subject_id, branch_version, wrapped)
     values ('tax', $1, 1, $2, $3, 1, decode(repeat('00', 65), 'hex'))`,
    [Buffer.alloc(16).toString('base64url'), PERSON.kind, PERSON.id],
  );
});
beforeEach(() => {
  vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  // The SDK's pause before it tries again, times this.
  vi.spyOn(Math, 'random').mockReturnValue(0);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  vi.unstubAllEnvs();
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
  rmSync(folder, { recursive: true });
});

describe.each(Object.entries(SERVICES))('%s', (_, { user, endpoint, more, run, ends }) => {
  // Read when the module loads: the next service has another.
  beforeAll(() => void vi.resetModules());

  it.each(FAULTS)('%s', async (_what, how) => {
    if (how !== 'no such name') answer = how;
    if (how === 'silent') vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldAdvanceTime: true });
    const host = how === 'no such name' ? 'nowhere.invalid' : '127.0.0.1';
    const sofar = calls;
    setEnvironment(user, { ...more, [endpoint]: `http://${host}:${port}` });
    expect(await run()).toEqual(ends);
    if (how !== 'no such name') expect(calls).toBeGreaterThan(sofar);
    // What is not in the archive stays where it is.
    expect((await remaining(owner)).events).toHaveLength(1);
    // Nobody is half erased: an operator who was told that it failed asks again.
    expect((await owner.query('select from vault.erasure_request')).rowCount).toBe(0);
  });
});

describe('credentials that expire in the middle of a run', () => {
  const base64 = (bytes: number): string => Buffer.alloc(bytes, 1).toString('base64');

  it.each([
    ['the operator, whose queue', '{"Attributes":{"ApproximateNumberOfMessages":"1"}}'],
    ['the janitor, whose KMS', JSON.stringify({ CiphertextBlob: base64(64), Plaintext: base64(32), KeyId: 'key' })],
  ] as const)('%s answered until then, says so', async (name, first) => {
    vi.resetModules();
    const { user, endpoint, more, run, ends } = SERVICES[name];
    before = [first];
    answer = { status: 403, type: 'ExpiredTokenException' };
    const sofar = calls;
    setEnvironment(user, { ...more, [endpoint]: `http://127.0.0.1:${port}` });
    expect(await run()).toEqual(ends);
    expect(calls - sofar).toBeGreaterThan(1);
    expect(before).toEqual([]);
  });
});

it('a queue, a bus and a KMS key whose names do not resolve: an outage, which costs no attempt and asks to come back', async () => {
  const settings = {
    region: 'eu-central-1',
    endpoint: 'http://nowhere.invalid',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    maxAttempts: 1,
  };
  const keyArn = 'arn:aws:kms:eu-central-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab';
  const sqs = new SQSClient({ ...settings, useQueueUrlAsEndpoint: false });
  const publishers = [
    sqsPublisher({ client: sqs, queueUrl: 'http://nowhere.invalid/1/ledger.fifo', fifo: true }),
    eventBridgePublisher({ client: new EventBridgeClient(settings), bus: 'events' }),
  ];
  for (const publisher of publishers) {
    const code = await publisher.preflight().then(() => 'resolved', codeOf);
    expect([code, failureClass(code)]).toEqual([expect.stringMatching(/^(ENOTFOUND|EAI_AGAIN)$/), 'outage']);
    publisher.close();
  }
  const client = new KMS(settings);
  const context = { vault: 'test', class: 'contact', version: '1', purpose: 'branch' } as const;
  const refused = await kmsKeys({ client, keyArn })
    .generate(context)
    .catch((error: unknown) => error);
  client.destroy();
  expect(refused).toMatchObject({ code: 'SEALING_UNAVAILABLE' });
  expect(sealingAnswer(refused)).toEqual({ status: 503, retryAfter: 5 });
  expect(classifyFailure(refused)).toMatchObject({ class: 'retry' });
});
