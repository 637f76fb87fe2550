import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ACCOUNT } from '../../local/environment.ts';
import { type KmsContext, kmsKeys } from '../../shared/sealing/index.ts';
import { type Account, type Caller, startAccount } from './iam.ts';
import { functionRights, resolved, roleOf, statementsOfRole } from './rights.ts';
import { emptyApp, type Resource, synthesise } from './synthesised.ts';
import {
  ARCHIVE,
  arnsOf,
  CALLS,
  type Clients,
  clientsOf,
  invoke,
  LOG,
  nameOf,
  QUEUES,
  tried,
  write,
} from './trial-calls.ts';

const VAULT = 'sealed-outbox-prod';
const BREAK_GLASS = `arn:aws:iam::${ACCOUNT}:user/break-glass`;
const stage = synthesise('prod', emptyApp(), { breakGlass: BREAK_GLASS });
const { resources, functionNamed, data } = stage;
const ROLES = functionRights(stage).map(({ name }) => name);

/** What each function may call, beside its keys, the log of erasures, and its own log. */
const MAY: Readonly<Record<string, readonly string[]>> = {
  relay: [...['Ledger', 'Notifications'].flatMap((name) => on(`${name}Queue`, 'send', 'describe', 'find')), 'put Bus'],
  ledger: on('LedgerQueue', 'receive', 'delete', 'hide', 'describe', 'find'),
  analytics: on('AnalyticsQueue', 'receive', 'delete', 'hide', 'describe', 'find'),
  notifications: on('NotificationsQueue', 'receive', 'delete', 'hide', 'describe', 'find'),
  operator: ['Ledger', 'Analytics', 'Notifications']
    .flatMap((name) => [
      ...on(`${name}Queue`, 'send', 'describe'),
      ...on(`${name}DeadLetters`, 'receive', 'delete', 'hide', 'describe'),
    ])
    .concat('read the archive', 'list its events'),
  janitor: ['archive'],
  api: [],
  monitor: [],
  migrate: [],
};

function on(queue: string, ...calls: readonly string[]): string[] {
  return calls.map((call) => `${call} ${queue}`);
}

/** The policies of the template, on an AWS that holds to them, called as the functions call. */
describe('in an account where IAM is in force', () => {
  let account: Account;
  let missing: string | undefined;
  let keyArn: string;
  const clients = new Map<string, Clients>();
  const enter = (name: string, caller: Caller): void => void clients.set(name, clientsOf(caller));
  const putIn = (value: unknown): unknown => resolved(value, stage, arnsOf(stage, keyArn));
  const roleWith = async (name: string, role: string): Promise<void> =>
    enter(name, await account.roleWith(name, statementsOfRole(role, stage).map(putIn)));
  const as = (name: string) => clients.get(name)!;
  const keysOf = (name: string) => kmsKeys({ client: as(name).kms, keyArn });
  const contextOf = (className: string): KmsContext => ({
    vault: VAULT,
    class: className,
    version: '1',
    purpose: 'branch',
  });

  beforeAll(async () => {
    const started = await startAccount();
    if ('missing' in started) {
      missing = started.missing;
      return;
    }
    account = started;
    enter('root', account.root);
    const { kms, s3, sqs, events, logs, sns } = as('root');
    const created = await kms.createKey({});
    keyArn = created.KeyMetadata!.Arn!;
    const [, key] = resources('AWS::KMS::Key').find(([id]) => id.startsWith('KeysKey'))!;
    await kms.putKeyPolicy({
      KeyId: keyArn,
      PolicyName: 'default',
      Policy: JSON.stringify(putIn(key.Properties['KeyPolicy'])),
    });
    await s3.createBucket({ Bucket: LOG });
    const [, policy] = Object.entries(data.findResources('AWS::S3::BucketPolicy')).find(([id]) =>
      id.startsWith('Erasures'),
    )! as [string, Resource];
    const { Statement } = putIn(policy.Properties['PolicyDocument']) as { Statement: object[] };
    // The emulator has no TLS; what is refused without it is asserted on the template.
    const beyondTls = Statement.filter((statement) => !/SecureTransport|TlsVersion/.test(JSON.stringify(statement)));
    expect(beyondTls).toHaveLength(Statement.length - 2);
    await s3.putBucketPolicy({
      Bucket: LOG,
      Policy: JSON.stringify({ Version: '2012-10-17', Statement: beyondTls }),
    });
    for (const Key of ['entry/000000000001.json', 'subject-key/000001.json']) {
      await s3.putObject({ Bucket: LOG, Key, Body: '{}', IfNoneMatch: '*' });
    }
    await s3.createBucket({ Bucket: ARCHIVE });
    await s3.putObject({ Bucket: ARCHIVE, Key: 'events/0.ndjson', Body: '{}' });
    await Promise.all(QUEUES.map((QueueName) => sqs.createQueue({ QueueName })));
    await events.createEventBus({ Name: 'Bus' });
    await sns.createTopic({ Name: 'Alarms' });
    await Promise.all(
      resources('AWS::Logs::LogGroup').map(([id]) => logs.createLogGroup({ logGroupName: nameOf(id) })),
    );
    await Promise.all(ROLES.map((name) => roleWith(name, roleOf(functionNamed(name)[1]))));
    const all = [{ Effect: 'Allow', Action: '*', Resource: '*' }];
    enter('admin', await account.roleWith('admin', all));
    enter('break-glass', await account.userWith('break-glass', all));
  });
  beforeEach((test) => {
    if (missing !== undefined) test.skip(missing);
  });
  afterAll(async () => {
    for (const caller of clients.values()) for (const client of Object.values(caller)) client.destroy();
    await account?.stop();
  });

  it.each(ROLES)('%s calls what its function calls, and is refused everything else', async (name) => {
    const answers = await Promise.all(
      Object.entries(CALLS).map(async ([call, make]) => [call, await tried(make(as(name)))] as const),
    );
    expect(answers.filter(([, answer]) => answer === 'yes').map(([call]) => call)).toEqual(
      Object.keys(CALLS).filter((call) => MAY[name]?.includes(call)),
    );
    for (const [, answer] of answers) expect(answer).toMatch(/^yes$|^AccessDenied|^AuthorizationError/);
  });

  it('each function writes to its own log and to no other', async () => {
    const groups = new Map(
      ROLES.map((name) => [name, nameOf(functionNamed(name)[1].Properties['LoggingConfig'].LogGroup.Ref)]),
    );
    for (const name of ROLES) {
      const written = await Promise.all(
        [...groups].map(async ([of, group]) => [of, await tried(write(group)(as(name)))]),
      );
      expect([name, written.filter(([, answer]) => answer === 'yes').map(([of]) => of)]).toEqual([name, [name]]);
    }
  });

  it('each schedule starts its own function and no other', async () => {
    const functions = resources('AWS::Lambda::Function').map(([id]) => nameOf(id));
    const schedules = resources('AWS::Scheduler::Schedule');
    expect(schedules.length).toBeGreaterThan(4);
    for (const [id, { Properties }] of schedules) {
      const { Arn, RoleArn } = Properties['Target'];
      await roleWith(id, RoleArn['Fn::GetAtt'][0]);
      const started = await Promise.all(functions.map(async (fn) => [fn, await tried(invoke(fn)(as(id)))]));
      expect([id, started.filter(([, answer]) => answer === 'yes').map(([fn]) => fn)]).toEqual([
        id,
        [nameOf(Arn['Fn::GetAtt'][0])],
      ]);
    }
  });

  it.each<[name: string, makes: string[], unwraps: string[]]>([
    ['api', ['bank', 'contact', 'tax'], ['bank', 'contact', 'tax']],
    ['notifications', [], ['contact']],
    ['ledger', [], ['contact']],
    ['analytics', [], []],
    ['relay', [], []],
    ['monitor', [], []],
    ['janitor', ['bank', 'contact', 'tax'], ['bank', 'contact', 'tax']],
    ['migrate', [], []],
    ['operator', [], []],
  ])('%s makes keys of %j and unwraps those of %j, and is refused all others', async (name, makes, unwraps) => {
    const keys = keysOf(name);
    for (const className of ['bank', 'contact', 'health', 'tax']) {
      const key = await keysOf('admin').generate(contextOf(className));
      expect([className, await tried(keys.generate(contextOf(className)))]).toEqual([
        className,
        makes.includes(className) ? 'yes' : 'SEALING_DENIED',
      ]);
      expect([className, await tried(keys.unwrap(key, contextOf(className)))]).toEqual([
        className,
        unwraps.includes(className) ? 'yes' : 'SEALING_DENIED',
      ]);
    }
    const wrapped = await tried(keys.wrap(Buffer.alloc(32), contextOf('contact')));
    expect(wrapped).toBe(name === 'janitor' ? 'yes' : 'SEALING_DENIED');
  });

  it('nobody uses the key for another vault, or without a context, whatever its role allows', async () => {
    const { kms } = as('admin');
    const context = { ...contextOf('contact') };
    const call = (EncryptionContext?: Record<string, string>) =>
      tried(kms.generateDataKey({ KeyId: keyArn, KeySpec: 'AES_256', EncryptionContext }));
    expect(await call(context)).toBe('yes');
    expect(await call({ ...context, vault: 'other' })).toBe('AccessDeniedException');
    expect(await call()).toBe('AccessDeniedException');
  });

  it('the key is disabled and deleted by the one who is named for it, and not by an administrator', async () => {
    const act = async (name: string) => {
      const { kms } = as(name);
      return [
        await tried(kms.disableKey({ KeyId: keyArn })),
        await tried(kms.enableKey({ KeyId: keyArn })),
        await tried(kms.scheduleKeyDeletion({ KeyId: keyArn, PendingWindowInDays: 30 })),
        await tried(kms.cancelKeyDeletion({ KeyId: keyArn })),
        await tried(kms.enableKey({ KeyId: keyArn })),
      ];
    };
    expect((await act('admin')).filter((_, index) => index === 0 || index === 2)).toEqual([
      'AccessDeniedException',
      'AccessDeniedException',
    ]);
    expect(await act('break-glass')).toEqual(['yes', 'yes', 'yes', 'yes', 'yes']);
    const { KeyMetadata } = await as('root').kms.describeKey({ KeyId: keyArn });
    expect(KeyMetadata?.KeyState).toBe('Enabled');
  });

  it('no grant gets past the classes', async () => {
    const { kms } = as('admin');
    const grant = { KeyId: keyArn, GranteePrincipal: BREAK_GLASS, Operations: ['Decrypt' as const] };
    expect(await tried(kms.createGrant(grant))).toBe('AccessDeniedException');
  });

  it.each([
    ['notifications', 'yes', 'AccessDenied'],
    ['ledger', 'yes', 'AccessDenied'],
    ['analytics', 'AccessDenied', 'AccessDenied'],
    ['relay', 'AccessDenied', 'AccessDenied'],
    ['monitor', 'AccessDenied', 'AccessDenied'],
    ['migrate', 'AccessDenied', 'AccessDenied'],
  ])('%s reads the log of erasures: %s; its key: %s; it adds, replaces and deletes nothing', async (name, may, key) => {
    const { s3 } = as(name);
    const Key = 'entry/000000000001.json';
    expect(await tried(s3.listObjectsV2({ Bucket: LOG, Prefix: 'entry/' }))).toBe(may);
    expect(await tried(s3.getObject({ Bucket: LOG, Key }))).toBe(may);
    expect(await tried(s3.listObjectsV2({ Bucket: LOG, Prefix: 'subject-key/' }))).toBe(key);
    expect(await tried(s3.listObjectsV2({ Bucket: LOG }))).toBe('AccessDenied');
    expect(await tried(s3.getObject({ Bucket: LOG, Key: 'subject-key/000001.json' }))).toBe(key);
    const erasure = { ...contextOf('erasure'), purpose: 'erasure' } as KmsContext;
    const wrapped = await keysOf('admin').generate(erasure);
    expect(await tried(keysOf(name).unwrap(wrapped, erasure))).toBe(key === 'yes' ? 'yes' : 'SEALING_DENIED');
    expect(await tried(keysOf(name).generate(erasure))).toBe('SEALING_DENIED');
    expect(
      await tried(s3.putObject({ Bucket: LOG, Key: 'entry/000000000002.json', Body: '{}', IfNoneMatch: '*' })),
    ).toBe('AccessDenied');
    expect(await tried(s3.deleteObject({ Bucket: LOG, Key }))).toBe('AccessDenied');
  });

  it.each([
    ['janitor', 'entry/000000000002.json', false],
    ['api', 'entry/000000000004.json', true],
    ['operator', 'entry/000000000005.json', true],
  ])(
    '%s writes the next entry of the log, and neither replaces nor deletes one; whoever erases has the key of the log, and whoever finishes has not',
    async (name, Key, key) => {
      const { s3 } = as(name);
      const put = { Bucket: LOG, Key, Body: '{}' };
      expect(await tried(s3.putObject(put))).toBe('AccessDenied');
      expect(await tried(s3.putObject({ ...put, IfNoneMatch: '*' }))).toBe('yes');
      expect(await tried(s3.putObject({ ...put, IfNoneMatch: '*' }))).toBe('PreconditionFailed');
      expect(await tried(s3.getObject({ Bucket: LOG, Key }))).toBe('yes');
      expect(await tried(s3.deleteObject({ Bucket: LOG, Key }))).toBe('AccessDenied');
      for (const other of ['other', 'subject-key/000002.json']) {
        expect(await tried(s3.putObject({ ...put, Key: other, IfNoneMatch: '*' }))).toBe('AccessDenied');
      }
      const erasure = { ...contextOf('erasure'), purpose: 'erasure' } as KmsContext;
      // Who finishes what others have asked for recognises nobody.
      const wrapped = await keysOf('admin').generate(erasure);
      expect(await tried(keysOf(name).generate(erasure))).toBe(key ? 'yes' : 'SEALING_DENIED');
      expect(await tried(keysOf(name).unwrap(wrapped, erasure))).toBe(key ? 'yes' : 'SEALING_DENIED');
      const read = { Bucket: LOG, Key: 'subject-key/000001.json' };
      expect(await tried(s3.getObject(read))).toBe(key ? 'yes' : 'AccessDenied');
    },
  );

  it('an administrator does not replace an entry of the log either, and adds one only where there is none', async () => {
    const { s3 } = as('admin');
    const put = (Key: string, IfNoneMatch?: string) =>
      tried(s3.putObject({ Bucket: LOG, Key, Body: '{}', IfNoneMatch }));
    expect(await put('entry/000000000001.json')).toBe('AccessDenied');
    expect(await put('entry/000000000001.json', '*')).toBe('PreconditionFailed');
    expect(await put('entry/000000000003.json')).toBe('AccessDenied');
    expect(await put('entry/000000000003.json', '*')).toBe('yes');
  });
});
