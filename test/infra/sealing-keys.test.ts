import { Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { Key } from 'aws-cdk-lib/aws-kms';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { describe, expect, it } from 'vitest';
import { janitorConfig } from '../../functions/janitor/config.ts';
import { keyringConfig } from '../../functions/keyring.ts';
import {
  ErasureLog,
  OutboxDatabase,
  type SealingAccess,
  SealingKeys,
  type SealingKeysProps,
} from '../../infra/index.ts';
import { createKeyring, type KmsContext } from '../../shared/sealing/index.ts';
import { keyringUnderTest } from '../support/keyring.ts';
import { emptyApp, type Resource, synthesise, variablesOf } from './synthesised.ts';

interface Statement {
  readonly Sid?: string;
  readonly Effect: 'Allow' | 'Deny';
  readonly Action: string | string[];
  readonly Condition?: Readonly<Record<string, Record<string, string | string[]>>>;
}

const list = <T>(value: T | T[]): T[] => (Array.isArray(value) ? value : [value]);

/** What the role of a function may do with KMS. */
function kmsStatements(resources: (type: string) => [string, Resource][], fn: Resource): Statement[] {
  const role = fn.Properties['Role']['Fn::GetAtt'][0];
  return resources('AWS::IAM::Policy')
    .filter(([, { Properties }]) => Properties['Roles'].some(({ Ref }: { Ref: string }) => Ref === role))
    .flatMap(([, { Properties }]): Statement[] => Properties['PolicyDocument'].Statement)
    .filter(({ Action }) => list(Action).some((action) => action.startsWith('kms:')));
}

/** As IAM decides, for what the policies here use: `StringEquals` on the encryption context. */
function isAllowed(statements: readonly Statement[], action: string, context: KmsContext): boolean {
  const values: Readonly<Record<string, string>> = Object.fromEntries(
    Object.entries(context).map(([key, value]) => [`kms:EncryptionContext:${key}`, value]),
  );
  return statements.some(({ Effect, Action, Condition = {} }) => {
    expect(Object.keys(Condition)).toEqual(['StringEquals']);
    const asked = Object.entries(Condition['StringEquals'] ?? {});
    return (
      Effect === 'Allow' &&
      list(Action).includes(action) &&
      asked.every(([key, wanted]) => list(wanted).includes(values[key] ?? ''))
    );
  });
}

/** The calls of KMS that a keyring makes when it seals for a class, and when another process opens that. */
async function callsOf(vault: string, className: string) {
  const { kms, vault: rows } = keyringUnderTest();
  const keyring = () => createKeyring({ name: vault, vault: rows.view(className), kms });
  const subject = { kind: 'customer', id: '1' };
  const key = (await keyring().keysToSeal([{ class: className, subject }]))(className, subject);
  if (key === undefined || key === 'erased') throw new Error('no key was made');
  const sealing = kms.calls.splice(0);
  await keyring().keysToOpen([key]);
  return { sealing, opening: kms.calls };
}

const ACTIONS = { generate: 'kms:GenerateDataKey', unwrap: 'kms:Decrypt', wrap: 'kms:Encrypt' };
const CLASSES = ['contact', 'tax', 'bank', 'health'];

describe.each(['dev', 'prod', 'local'] as const)('keys of stage %s', (stage) => {
  const { resources, functionNamed, data } = synthesise(stage);
  const vault = `sealed-outbox-${stage}`;
  const statementsOf = (name: string) => kmsStatements(resources, functionNamed(name)[1]);
  const isOfKeys = ([id]: [string, Resource]) => id.startsWith('Keys');

  it.each([
    ['api', ['contact', 'tax', 'bank'], ['contact', 'tax', 'bank']],
    ['ledger', [], ['contact']],
    ['notifications', [], ['contact']],
    ['analytics', [], []],
    ['relay', [], []],
    ['monitor', [], []],
    ['migrate', [], []],
  ])('%s seals %j and opens %j, by what the keyring really sends', async (name, seals, opens) => {
    const statements = statementsOf(name);
    for (const className of CLASSES) {
      const { sealing, opening } = await callsOf(vault, className);
      expect(sealing.map(({ call }) => call)).toContain('generate');
      expect(opening.map(({ call }) => call)).toEqual(['unwrap']);
      const may = (calls: typeof sealing) =>
        calls.every(({ call, context }) => isAllowed(statements, ACTIONS[call], context));
      expect([className, may(sealing), may(opening)]).toEqual([
        className,
        seals.includes(className),
        opens.includes(className),
      ]);
    }
  });

  it('are rotated by the janitor, who may do all of it in these classes and nothing in others', () => {
    const statements = statementsOf('janitor');
    for (const className of CLASSES) {
      for (const purpose of ['branch', 'index'] as const) {
        const context = { vault, class: className, version: '2', purpose } as KmsContext;
        const may = Object.values(ACTIONS).map((action) => isAllowed(statements, action, context));
        expect([className, ...may]).toEqual([className, ...may.map(() => className !== 'health')]);
      }
    }
    const config = janitorConfig({
      ...variablesOf(functionNamed('janitor')[1]),
      JANITOR_ARCHIVE: 'none',
      SEALING_ERASURE_LOG: 'bucket',
      SEALING_KEY_ARN: 'arn:aws:kms:eu-central-1:123456789012:key/1',
    });
    expect(config.sealing).toMatchObject({ vault, branchSeconds: 90 * 86_400 });
  });

  it('are of one vault: the keys of another, and of other purposes, are refused', async () => {
    const context: KmsContext = { vault, class: 'contact', version: '7', purpose: 'branch' };
    const statements = statementsOf('notifications');
    expect(isAllowed(statements, 'kms:Decrypt', context)).toBe(true);
    expect(isAllowed(statements, 'kms:Decrypt', { ...context, vault: 'other' })).toBe(false);
    expect(isAllowed(statements, 'kms:Decrypt', { ...context, purpose: 'index' })).toBe(false);
    const { vault: _, ...without } = context;
    expect(isAllowed(statements, 'kms:Decrypt', without as KmsContext)).toBe(false);
  });

  it('are set as the functions read them, where there are some', () => {
    for (const name of ['api', 'ledger', 'notifications']) {
      const variables = variablesOf(functionNamed(name)[1]);
      expect(JSON.stringify(variables['SEALING_KEY_ARN'])).toMatch(/KeysKey.*Arn/);
      expect(JSON.stringify(variables['SEALING_ERASURE_LOG'])).toMatch(/ErasuresBucket/);
      const SEALING_KEY_ARN = 'arn:aws:kms:eu-central-1:123456789012:key/1';
      expect(keyringConfig({ ...variables, SEALING_KEY_ARN, SEALING_ERASURE_LOG: 'bucket' }).vault).toBe(vault);
    }
    for (const name of ['relay', 'monitor', 'analytics', 'migrate']) {
      expect(Object.keys(variablesOf(functionNamed(name)[1])).filter((key) => key.startsWith('SEALING_'))).toEqual([]);
    }
  });

  it('tell the alarm topic who changes the KMS key', () => {
    const [[id, key]] = resources('AWS::KMS::Key').filter(isOfKeys) as [[string, Resource]];
    const rule = resources('AWS::Events::Rule').find(([name]) => name.startsWith('KeyAtRisk'))?.[1].Properties;
    expect(rule?.['EventPattern']).toMatchObject({
      source: ['aws.kms'],
      'detail-type': ['AWS API Call via CloudTrail'],
      detail: {
        eventName: expect.arrayContaining(['DisableKey', 'ScheduleKeyDeletion', 'PutKeyPolicy', 'CreateGrant']),
        $or: [
          { resources: { ARN: [{ 'Fn::GetAtt': [id, 'Arn'] }] } },
          { requestParameters: { keyId: [{ Ref: id }, { 'Fn::GetAtt': [id, 'Arn'] }] } },
        ],
      },
    });
    expect(JSON.stringify(rule?.['Targets'])).toMatch(/"Arn":\{"Ref":"Alarms.*docs\/runbooks\/key-at-risk\.md/);
    const publishers = resources('AWS::SNS::TopicPolicy')
      .flatMap(([, { Properties }]) => Properties['PolicyDocument'].Statement)
      .filter(({ Effect }) => Effect === 'Allow')
      .map(({ Principal }) => Principal.Service);
    // The policy that asks for TLS takes the place of SNS's own, under which every alarm of the account might publish.
    expect(new Set(publishers)).toEqual(new Set(['events.amazonaws.com', 'cloudwatch.amazonaws.com']));
    expect(key.Properties).toMatchObject({ EnableKeyRotation: true, RotationPeriodInDays: 365, MultiRegion: false });
  });

  it('can be deleted with their stack where the stage is thrown away, and nowhere else', () => {
    const [[, key]] = resources('AWS::KMS::Key').filter(isOfKeys) as [[string, Resource]];
    const blocked = (key.Properties['KeyPolicy'].Statement as Statement[]).filter(
      ({ Effect, Action }) => Effect === 'Deny' && list(Action).includes('kms:ScheduleKeyDeletion'),
    );
    expect(blocked).toHaveLength(stage === 'prod' ? 1 : 0);
    expect(key.DeletionPolicy).toBe(stage === 'prod' ? 'Retain' : 'Delete');
    expect(key.Properties['PendingWindowInDays']).toBe(stage === 'prod' ? 30 : 7);
  });

  it('keep the log of erasures private, by TLS, in versions, never replaced, and in prod locked for longer than any backup', () => {
    const [id, bucket] = resources('AWS::S3::Bucket').find(([name]) => name.startsWith('Erasures'))!;
    expect(bucket.Properties).toMatchObject({
      PublicAccessBlockConfiguration: {
        BlockPublicAcls: true,
        BlockPublicPolicy: true,
        IgnorePublicAcls: true,
        RestrictPublicBuckets: true,
      },
      VersioningConfiguration: { Status: 'Enabled' },
    });
    expect(bucket.Properties['ObjectLockConfiguration']).toEqual(
      stage === 'prod'
        ? { ObjectLockEnabled: 'Enabled', Rule: { DefaultRetention: { Mode: 'COMPLIANCE', Days: 90 } } }
        : undefined,
    );
    // Entries do not expire: a restored database would not know of them.
    expect(JSON.stringify(bucket.Properties['LifecycleConfiguration'])).not.toContain('Expiration');
    const [, policy] = resources('AWS::S3::BucketPolicy').find(
      ([, { Properties }]) => Properties['Bucket'].Ref === id,
    )!;
    expect(policy.Properties['PolicyDocument'].Statement).toEqual(
      expect.arrayContaining([
        expect.objectContaining({
          Effect: 'Deny',
          Action: 's3:*',
          Condition: { Bool: { 'aws:SecureTransport': 'false' } },
        }),
        expect.objectContaining({
          Effect: 'Deny',
          Action: 's3:PutObject',
          Condition: { Null: { 's3:if-none-match': 'true' }, Bool: { 's3:ObjectCreationOperation': 'true' } },
        }),
      ]),
    );
  });

  it('have logical ids that stay: another id is another key, and nothing opens', () => {
    const ids = [
      ...Object.keys(data.findResources('AWS::KMS::Key')),
      ...Object.keys(data.findResources('AWS::S3::Bucket')),
    ];
    expect(ids.filter((id) => !/^(Archive|Cluster)/.test(id))).toEqual(['KeysKeyFE944A9C', 'ErasuresBucket8F1B4939']);
  });
});

function own(more: Partial<SealingKeysProps> = {}) {
  const stack = new Stack(emptyApp(), 'Own');
  const keys = new SealingKeys(stack, 'Keys', { vaultName: 'shop', ...more });
  const fn = (id: string) =>
    new LambdaFunction(stack, id, {
      runtime: Runtime.NODEJS_24_X,
      handler: 'index.handler',
      code: Code.fromInline('0'),
    });
  const key = () => Object.values(Template.fromStack(stack).findResources('AWS::KMS::Key'))[0]?.['Properties'];
  const kmsOf = (id: string): Statement[] => {
    const template = Template.fromStack(stack);
    const resources = (type: string) => Object.entries(template.findResources(type) as Record<string, Resource>);
    const found = resources('AWS::Lambda::Function').find(([name]) => name.startsWith(id))!;
    return kmsStatements(resources, found[1]);
  };
  return { stack, keys, fn, key, kmsOf };
}

describe('a key of your own', () => {
  const breakGlassArn = 'arn:aws:iam::123456789012:role/break-glass';
  const deniesOf = (props: Partial<SealingKeysProps>): Statement[] =>
    own(props)
      .key()
      .KeyPolicy.Statement.filter(({ Effect }: Statement) => Effect === 'Deny');

  it('may be disabled and deleted by nobody, or by the one who is named', () => {
    const blocked = (props: Partial<SealingKeysProps>) =>
      deniesOf(props).find(({ Sid }) => Sid === 'NeitherDisabledNorDeleted');
    expect(blocked({})).toMatchObject({
      Action: ['kms:DisableKey', 'kms:ScheduleKeyDeletion'],
      Principal: { AWS: '*' },
    });
    expect(blocked({})).not.toHaveProperty('Condition');
    expect(blocked({ breakGlassArn })).toMatchObject({
      Condition: { ArnNotEquals: { 'aws:PrincipalArn': breakGlassArn } },
    });
    expect(blocked({ blockDeletion: false })).toBeUndefined();
  });

  it('is used for its vault only, and by no grant, which would know no classes', () => {
    expect(deniesOf({ blockDeletion: false })).toMatchObject([
      {
        Action: ['kms:Decrypt', 'kms:Encrypt', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'],
        Condition: { StringNotEquals: { 'kms:EncryptionContext:vault': 'shop' } },
      },
      { Action: 'kms:CreateGrant' },
    ]);
  });

  it('can have replicas, another rhythm, another time to take a deletion back', () => {
    const props = { multiRegion: true, rotationPeriod: Duration.days(90), pendingWindow: Duration.days(7) };
    expect(own(props).key()).toMatchObject({ MultiRegion: true, RotationPeriodInDays: 90, PendingWindowInDays: 7 });
  });

  it.each<[string, Partial<SealingKeysProps>]>([
    ['vaultName "Shop"', { vaultName: 'Shop' }],
    ['rotationPeriod must be 90 to 2560 whole days', { rotationPeriod: Duration.days(30) }],
    ['rotationPeriod must be 90 to 2560 whole days', { rotationPeriod: Duration.hours(24 * 100 + 1) }],
    ['pendingWindow must be 7 to 30 whole days', { pendingWindow: Duration.days(31) }],
    ['not of a session', { breakGlassArn: 'arn:aws:sts::123456789012:assumed-role/break-glass/me' }],
    ['no effect with blockDeletion: false', { breakGlassArn, blockDeletion: false }],
  ])('is refused at synthesis: %s', (message, props) => {
    expect(() => own(props)).toThrow(message);
    expect(() => own(props)).toThrow(/^Own\/Keys: /);
  });

  it('gives the janitor Encrypt besides, and for its classes only', () => {
    const { keys, fn, kmsOf } = own();
    keys.grantRotate(fn('Janitor'), ['tax', 'contact', 'tax']);
    const statements = kmsOf('Janitor');
    const context: KmsContext = { vault: 'shop', class: 'tax', version: '2', purpose: 'branch' };
    for (const action of Object.values(ACTIONS)) {
      expect(isAllowed(statements, action, context)).toBe(true);
      expect(isAllowed(statements, action, { ...context, purpose: 'index' })).toBe(true);
      expect(isAllowed(statements, action, { ...context, class: 'bank' })).toBe(false);
    }
  });

  it('gives who erases the key of the log, and none that opens anything', () => {
    const { stack, fn, kmsOf } = own();
    const keys = SealingKeys.fromKey(stack, 'Same', {
      vaultName: 'shop',
      key: new Key(stack, 'Existing'),
      erasureLog: new ErasureLog(stack, 'Log'),
    });
    keys.grantErase(fn('Eraser'));
    const context = { vault: 'shop', class: 'erasure', version: '1', purpose: 'erasure' } as KmsContext;
    expect(isAllowed(kmsOf('Eraser'), 'kms:GenerateDataKey', context)).toBe(true);
    expect(isAllowed(kmsOf('Eraser'), 'kms:Decrypt', { ...context, purpose: 'branch' })).toBe(false);
    const added = Object.values(Template.fromStack(stack).findResources('AWS::IAM::Policy'))
      .flatMap(({ Properties }) => Properties.PolicyDocument.Statement)
      .filter(({ Action }: Statement) => list(Action).includes('s3:PutObject'));
    expect(JSON.stringify(added)).toMatch(/"\/entry\/\*".*"\/subject-key\/000001\.json"/);
    expect(JSON.stringify(added)).not.toContain('Delete');
  });

  it('lets who finishes erasures add to the log, and gives no key with it', () => {
    const { stack, fn } = own();
    const keys = SealingKeys.fromKey(stack, 'Same', {
      vaultName: 'shop',
      key: new Key(stack, 'Existing'),
      erasureLog: new ErasureLog(stack, 'Log'),
    });
    keys.grantFinish(fn('Finisher'));
    const text = JSON.stringify(Template.fromStack(stack).findResources('AWS::IAM::Policy'));
    expect(text).toMatch(/s3:PutObject.*\/entry\/\*/);
    expect(text).not.toMatch(/kms:|subject-key|Delete/);
  });

  it('does not let anybody erase without a log outside of the database', () => {
    const { keys, fn } = own();
    expect(() => keys.grantFinish(fn('Finisher'))).toThrow(/without an erasureLog/);
    expect(() => keys.grantErase(fn('Eraser'))).toThrow(/without an erasureLog a restored backup would bring erased/);
  });

  it('goes on opening what an earlier key has wrapped, and wraps nothing with that', () => {
    const { stack, fn, kmsOf } = own();
    const previous = new Key(stack, 'Previous');
    const keys = SealingKeys.fromKey(stack, 'Next', {
      vaultName: 'shop',
      key: new Key(stack, 'New'),
      previousKeys: [previous],
    });
    keys.grantSeal(fn('Shop'), ['contact']);
    const of = kmsOf('Shop').map(({ Action, ...rest }) => [list(Action).join(), JSON.stringify(rest)]);
    expect(of).toEqual([
      ['kms:Decrypt,kms:GenerateDataKey', expect.stringMatching(/"New\w+","Arn"/)],
      ['kms:Decrypt', expect.stringMatching(/"Previous\w+","Arn"/)],
    ]);
  });

  it('is the only one that a function works with', () => {
    const { stack, keys, fn } = own();
    const shop = fn('Shop');
    keys.grantOpen(shop, ['contact']);
    keys.grantSeal(shop, ['tax']);
    const other = new SealingKeys(stack, 'Other', { vaultName: 'other' });
    expect(() => other.grantOpen(shop, ['contact'])).toThrow('Own/Other: Own/Shop has keys of Own/Keys already');
  });

  it.each([
    ['no class is given', []],
    ['"Tax" is no class', ['contact', 'Tax']],
    ['"*" is no class', ['*']],
  ])('is not given where %s', (message, classes) => {
    const { keys, fn } = own();
    expect(() => keys.grantOpen(fn('Shop'), classes)).toThrow(message);
  });
});

describe('a login of your own', () => {
  const installed = (sealing: Omit<SealingAccess, 'keys'>) => {
    const stack = new Stack(emptyApp(), 'Own');
    const keys = new SealingKeys(stack, 'Keys', { vaultName: 'shop', erasureLog: new ErasureLog(stack, 'Log') });
    const database = new OutboxDatabase(stack, 'Database', {
      connection: { host: '127.0.0.1', port: 5432, name: 'outbox', auth: { kind: 'password', password: 'none' } },
      migrateEntry: 'functions/migrate/index.ts',
      migrator: 'sealed_migrator',
    });
    const fn = new LambdaFunction(stack, 'Shop', {
      runtime: Runtime.NODEJS_24_X,
      handler: 'index.handler',
      code: Code.fromInline('0'),
    });
    database.connect(fn, { user: 'shop', roles: [], sealing: { keys, ...sealing } });
    const functions = Object.values(Template.fromStack(stack).findResources('AWS::Lambda::Function') as object);
    const migrate = functions.find((it) => 'DATABASE_LOGINS' in variablesOf(it as Resource));
    const [{ roles, vault }] = JSON.parse(variablesOf(migrate as Resource)['DATABASE_LOGINS']) as [
      { roles: string[]; vault: object },
    ];
    return { roles, ...vault };
  };

  it.each<[Omit<SealingAccess, 'keys'>, object]>([
    [{ opens: ['tax', 'contact'] }, { roles: ['vault_reader'], reads: ['contact', 'tax'], creates: [] }],
    [
      { seals: ['contact'], opens: ['contact', 'tax'] },
      { roles: ['vault_writer'], reads: ['tax'], creates: ['contact'] },
    ],
    [
      { rotates: ['tax', 'contact'] },
      { roles: ['vault_writer', 'vault_rotator'], reads: [], creates: ['contact', 'tax'] },
    ],
    [
      { rotates: ['contact'], indexes: { 'customer-email': 'contact' } },
      {
        roles: ['vault_writer', 'vault_rotator', 'vault_index_rotator'],
        reads: [],
        creates: ['contact'],
        indexes: { 'customer-email': 'contact' },
      },
    ],
    [{ erases: true }, { roles: ['vault_eraser'], reads: [], creates: [] }],
    [
      { opens: ['tax'], indexes: { 'customer-email': 'contact' } },
      { roles: ['vault_reader'], reads: ['tax'], creates: [], indexes: { 'customer-email': 'contact' } },
    ],
  ])('that declares %j gets the same in the vault', (sealing, expected) => {
    expect(installed(sealing)).toEqual(expected);
  });

  it('that declares nothing, or an index by a name that is none, is a mistake', () => {
    expect(() => installed({})).toThrow('no class is given');
    expect(() => installed({ indexes: { 'Customer-Email': 'contact' } })).toThrow('is no name of a blind index');
  });
});
