import { KMS } from '@aws-sdk/client-kms';
import { S3 } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ACCOUNT } from '../../local/environment.ts';
import { type KmsContext, kmsKeys } from '../../shared/sealing/index.ts';
import { type Account, type Caller, startAccount } from './iam.ts';
import { emptyApp, type Resource, synthesise } from './synthesised.ts';

const VAULT = 'sealed-outbox-prod';
const LOG = 'erasures-of-the-trial';
const BREAK_GLASS = `arn:aws:iam::${ACCOUNT}:user/break-glass`;
const ROLES = ['api', 'notifications', 'ledger', 'analytics', 'relay', 'monitor', 'janitor', 'migrate'] as const;

const { resources, functionNamed, data } = synthesise('prod', emptyApp(), { breakGlass: BREAK_GLASS });

/** CloudFormation's own functions, as far as these policies use them. */
interface Functions {
  readonly Ref?: string;
  readonly 'Fn::Join'?: readonly [string, readonly unknown[]];
  readonly 'Fn::GetAtt'?: readonly [string, string];
  readonly 'Fn::ImportValue'?: string;
}

/** What CloudFormation would put in, for the two resources of the trial; the rest keeps its form and matches nothing. */
function resolved(value: unknown, keyArn: string): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map((item) => resolved(item, keyArn));
  const { Ref, 'Fn::Join': join, 'Fn::GetAtt': attribute, 'Fn::ImportValue': imported } = value as Functions;
  if (join !== undefined) return (resolved(join[1], keyArn) as string[]).join(join[0]);
  const name = imported ?? attribute?.[0] ?? Ref ?? '';
  if (name === '') return Object.fromEntries(Object.entries(value).map(([key, it]) => [key, resolved(it, keyArn)]));
  if (name === 'AWS::Partition') return 'aws';
  if (name === 'AWS::AccountId') return ACCOUNT;
  if (name.includes('KeysKey')) return keyArn;
  return name.includes('ErasuresBucket') ? `arn:aws:s3:::${LOG}` : `arn:aws:none:::${name.replaceAll(':', '-')}`;
}

/** The statements of a function's role in the template that concern keys or buckets. */
function statementsOf(name: string, keyArn: string): unknown[] {
  const role = functionNamed(name)[1].Properties['Role']['Fn::GetAtt'][0];
  return resources('AWS::IAM::Policy')
    .filter(([, { Properties }]) => Properties['Roles'].some(({ Ref }: { Ref: string }) => Ref === role))
    .flatMap(([, { Properties }]) => Properties['PolicyDocument'].Statement as object[])
    .filter((statement) => /"(?:kms|s3):/.test(JSON.stringify(statement)))
    .map((statement) => resolved(statement, keyArn));
}

/** `yes`, or AWS's name for the refusal. */
async function tried(call: Promise<unknown>): Promise<string> {
  try {
    await call;
    return 'yes';
  } catch (error) {
    const { name, code } = error as { readonly name?: string; readonly code?: string };
    return code ?? name ?? 'unknown';
  }
}

/** The policies of the template, on an AWS that holds to them, called as the functions call. */
describe('in an account where IAM is in force', () => {
  let account: Account;
  let missing: string | undefined;
  let keyArn: string;
  /** A client costs more than its calls: one for each caller. */
  const clients = new Map<string, { readonly kms: KMS; readonly s3: S3 }>();
  const enter = (name: string, caller: Caller): void => {
    const settings = { ...caller, maxAttempts: 1 };
    clients.set(name, { kms: new KMS(settings), s3: new S3({ ...settings, forcePathStyle: true }) });
  };
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
    const { kms, s3 } = as('root');
    const created = await kms.createKey({});
    keyArn = created.KeyMetadata!.Arn!;
    const [[, key]] = resources('AWS::KMS::Key').filter(([id]) => id.startsWith('Keys')) as [[string, Resource]];
    await kms.putKeyPolicy({
      KeyId: keyArn,
      PolicyName: 'default',
      Policy: JSON.stringify(resolved(key.Properties['KeyPolicy'], keyArn)),
    });
    await s3.createBucket({ Bucket: LOG });
    const [, policy] = Object.entries(data.findResources('AWS::S3::BucketPolicy')).find(([id]) =>
      id.startsWith('Erasures'),
    )! as [string, Resource];
    const { Statement } = resolved(policy.Properties['PolicyDocument'], keyArn) as { Statement: object[] };
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
    await Promise.all(ROLES.map(async (name) => enter(name, await account.roleWith(name, statementsOf(name, keyArn)))));
    const all = [{ Effect: 'Allow', Action: '*', Resource: '*' }];
    enter('admin', await account.roleWith('admin', all));
    enter('break-glass', await account.userWith('break-glass', all));
  });
  beforeEach((test) => {
    if (missing !== undefined) test.skip(missing);
  });
  afterAll(async () => {
    for (const { kms, s3 } of clients.values()) {
      kms.destroy();
      s3.destroy();
    }
    await account?.stop();
  });

  it.each<[name: (typeof ROLES)[number], makes: string[], unwraps: string[]]>([
    ['api', ['bank', 'contact', 'tax'], ['bank', 'contact', 'tax']],
    ['notifications', [], ['contact']],
    ['ledger', [], ['contact']],
    ['analytics', [], []],
    ['relay', [], []],
    ['monitor', [], []],
    ['janitor', ['bank', 'contact', 'tax'], ['bank', 'contact', 'tax']],
    ['migrate', [], []],
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
    ['api', 'yes', 'yes'],
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

  it('the janitor writes the next entry of the log, and neither replaces nor deletes one', async () => {
    const { s3 } = as('janitor');
    const Key = 'entry/000000000002.json';
    const put = { Bucket: LOG, Key, Body: '{}' };
    expect(await tried(s3.putObject(put))).toBe('AccessDenied');
    expect(await tried(s3.putObject({ ...put, IfNoneMatch: '*' }))).toBe('yes');
    expect(await tried(s3.putObject({ ...put, IfNoneMatch: '*' }))).toBe('PreconditionFailed');
    expect(await tried(s3.getObject({ Bucket: LOG, Key }))).toBe('yes');
    expect(await tried(s3.deleteObject({ Bucket: LOG, Key }))).toBe('AccessDenied');
    expect(await tried(s3.putObject({ ...put, Key: 'other', IfNoneMatch: '*' }))).toBe('AccessDenied');
  });

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
