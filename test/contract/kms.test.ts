import { KMS } from '@aws-sdk/client-kms';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type BranchState,
  type Kms,
  type KmsContext,
  kmsKeys,
  moveBranchKey,
  type RotationVault,
  type WrappedKey,
} from '../../shared/sealing/index.ts';
import { foundLocalStack } from '../support/found-localstack.ts';

const localstack = await foundLocalStack();
const context: KmsContext = { vault: 'test', class: 'contact', version: '1', purpose: 'branch' };

const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };

describe('KMS on LocalStack', () => {
  let client: KMS;
  let keyArn: string;
  let kms: Kms;

  beforeAll(async () => {
    if ('missing' in localstack) return;
    client = new KMS({ ...localstack, maxAttempts: 1 });
    keyArn = await newKey();
    kms = kmsKeys({ client, keyArn, timeoutMs: 30_000 });
  });
  beforeEach((test) => {
    if ('missing' in localstack) test.skip(localstack.missing);
  });
  afterAll(() => client?.destroy());

  async function newKey(): Promise<string> {
    const { KeyMetadata } = await client.createKey({});
    return KeyMetadata!.Arn!;
  }

  it('makes a data key, and unwraps it for the same context', async () => {
    const { plaintext, wrapped, kmsKey } = await kms.generate(context);
    expect(plaintext).toHaveLength(32);
    expect(kmsKey).toBe(keyArn);
    expect(Buffer.from(await kms.unwrap({ kmsKey, wrapped }, context)).equals(plaintext)).toBe(true);
  });

  it('wraps a key that is known', async () => {
    const wrapped = await kms.wrap(Buffer.alloc(32, 7), context);
    expect(Buffer.from(await kms.unwrap(wrapped, context)).equals(Buffer.alloc(32, 7))).toBe(true);
  });

  it.each([{ vault: 'other' }, { class: 'tax' }, { version: '2' }])(
    'does not unwrap for another context: %j',
    async (other) => {
      const key = await kms.generate(context);
      await expect(kms.unwrap(key, { ...context, ...other })).rejects.toMatchObject({ code: 'SEALING_TAMPERED' });
    },
  );

  it('does not unwrap bytes that were changed, nor by another key', async () => {
    const { kmsKey, wrapped } = await kms.generate(context);
    const changed = Buffer.from(wrapped);
    changed.writeUInt8(changed.readUInt8(changed.length - 1) ^ 1, changed.length - 1);
    await expect(kms.unwrap({ kmsKey, wrapped: changed }, context)).rejects.toMatchObject({ code: 'SEALING_TAMPERED' });
    await expect(kms.unwrap({ kmsKey: await newKey(), wrapped }, context)).rejects.toMatchObject({
      code: 'SEALING_TAMPERED',
    });
  });

  it('unwraps after the KMS key was rotated', async () => {
    const key = await kms.generate(context);
    await client.rotateKeyOnDemand({ KeyId: keyArn });
    expect(Buffer.from(await kms.unwrap(key, context)).equals(key.plaintext)).toBe(true);
  });

  it('wraps a branch key of another KMS key anew: the same key, which the old KMS key no longer opens', async () => {
    const { plaintext, ...old } = await kms.generate(context);
    const branch = { class: 'contact', version: 1, active: true, age: 0, retiredFor: null, ...old };
    const today = kmsKeys({ client, keyArn: await newKey(), timeoutMs: 30_000 });
    let moved: WrappedKey | null = null;
    const vault = { rewrapBranch: async (_: BranchState, key: WrappedKey) => (moved = key) !== null } as RotationVault;
    expect(await moveBranchKey({ name: 'test', vault, kms: today }, branch)).toBe(true);
    await client.disableKey({ KeyId: keyArn });
    try {
      expect(Buffer.from(await today.unwrap(moved!, context)).equals(plaintext)).toBe(true);
      await expect(today.unwrap(old, context)).rejects.toMatchObject({ code: 'SEALING_KEY_DISABLED' });
    } finally {
      await client.enableKey({ KeyId: keyArn });
    }
    await expect(today.unwrap({ ...moved!, kmsKey: keyArn }, context)).rejects.toMatchObject({
      code: 'SEALING_TAMPERED',
    });
    await expect(today.unwrap(moved!, { ...context, version: '2' })).rejects.toMatchObject({
      code: 'SEALING_TAMPERED',
    });
  });

  it('says when the KMS key is disabled, about to be deleted, or not there', async () => {
    const closed = await newKey();
    const other = kmsKeys({ client, keyArn: closed, timeoutMs: 30_000 });
    const key = await other.generate(context);
    await client.disableKey({ KeyId: closed });
    await expect(other.unwrap(key, context)).rejects.toMatchObject({ code: 'SEALING_KEY_DISABLED' });
    await expect(other.generate(context)).rejects.toMatchObject({ code: 'SEALING_KEY_DISABLED' });
    await client.scheduleKeyDeletion({ KeyId: closed, PendingWindowInDays: 7 });
    await expect(other.unwrap(key, context)).rejects.toMatchObject({ code: 'SEALING_KEY_DISABLED' });
    const nowhere = kmsKeys({ client, keyArn: `${keyArn.slice(0, -12)}000000000000`, timeoutMs: 30_000 });
    await expect(nowhere.generate(context)).rejects.toMatchObject({ code: 'SEALING_KEY_DISABLED' });
  });

  it('says unavailable where nobody listens', async () => {
    const away = new KMS({ region: 'eu-central-1', endpoint: 'http://127.0.0.1:1', maxAttempts: 1, credentials });
    await expect(kmsKeys({ client: away, keyArn }).generate(context)).rejects.toMatchObject({
      code: 'SEALING_UNAVAILABLE',
    });
    away.destroy();
  });
});
