import { describe, expect, it } from 'vitest';
import { kmsKeys, type KmsContext } from '../../../shared/sealing/index.ts';
import { KMS_ERRORS } from '../../../shared/sealing/keyring/kms-keys.ts';

const keyArn = 'arn:aws:kms:eu-central-1:000000000000:key/1f0c6e5a-0000-4000-8000-000000000001';
const context: KmsContext = { vault: 'test', class: 'contact', version: '1', purpose: 'branch' };
type Client = Parameters<typeof kmsKeys>[0]['client'];

/** A client that answers every call alike, and remembers what it was asked. */
function client(answer: (signal: AbortSignal) => Promise<object>) {
  const asked: Record<string, unknown>[] = [];
  const call = (input: Record<string, unknown>, { abortSignal }: { abortSignal: AbortSignal }): Promise<object> => {
    asked.push(input);
    return answer(abortSignal);
  };
  return { asked, client: { generateDataKey: call, encrypt: call, decrypt: call } as unknown as Client };
}

function failing(error: object) {
  const refuse = async (): Promise<object> => {
    throw Object.assign(new Error('m'), error);
  };
  return kmsKeys({ client: client(refuse).client, keyArn });
}

describe('keys of AWS KMS', () => {
  it('are asked for by ARN, with the whole context, and unwrapped by the key that wrapped them', async () => {
    const bytes = Uint8Array.of(1);
    const { client: answering, asked } = client(async () => ({
      KeyId: keyArn,
      Plaintext: bytes,
      CiphertextBlob: bytes,
    }));
    const kms = kmsKeys({ client: answering, keyArn });
    const old = keyArn.replace('0001', '0009');
    expect(await kms.generate(context)).toEqual({ kmsKey: keyArn, plaintext: bytes, wrapped: bytes });
    expect(await kms.wrap(bytes, context)).toEqual({ kmsKey: keyArn, wrapped: bytes });
    expect(await kms.unwrap({ kmsKey: old, wrapped: bytes }, context)).toBe(bytes);
    expect(asked).toEqual([
      { KeyId: keyArn, KeySpec: 'AES_256', EncryptionContext: { ...context } },
      { KeyId: keyArn, Plaintext: bytes, EncryptionContext: { ...context } },
      { KeyId: old, CiphertextBlob: bytes, EncryptionContext: { ...context } },
    ]);
  });

  it.each(Object.entries(KMS_ERRORS))('%s is %s', async (name, code) => {
    await expect(
      failing({ name, message: 'm' }).unwrap({ kmsKey: keyArn, wrapped: Buffer.of(1) }, context),
    ).rejects.toMatchObject({ code, message: expect.stringContaining(name) });
  });

  it.each([
    { name: 'Error', code: 'ECONNREFUSED' },
    { name: 'KMSInternalException' },
    { name: 'DependencyTimeoutException' },
    { name: 'KeyUnavailableException' },
    { name: 'CredentialsProviderError' },
    { name: 'constructor' },
    { name: 'a name with blanks' },
    {},
  ])('what says nothing of the key is unavailable: %j', async (error) => {
    await expect(failing(error).generate(context)).rejects.toMatchObject({ code: 'SEALING_UNAVAILABLE' });
  });

  it('like case 24: are asked for once more on another connection, where the kept one has been forgotten meanwhile', async () => {
    const bytes = Uint8Array.of(1);
    let resets = 1;
    const { client: reset, asked } = client(async () => {
      if (resets-- > 0) throw Object.assign(new Error('socket hang up'), { code: 'ECONNRESET' });
      return { KeyId: keyArn, Plaintext: bytes, CiphertextBlob: bytes };
    });
    const kms = kmsKeys({ client: reset, keyArn });
    expect(await kms.unwrap({ kmsKey: keyArn, wrapped: bytes }, context)).toBe(bytes);
    expect(asked).toHaveLength(2);
    resets = 9;
    await expect(kms.generate(context)).rejects.toMatchObject({ code: 'SEALING_UNAVAILABLE' });
    expect(asked).toHaveLength(4);
    const slow = client(async () => {
      throw Object.assign(new Error('slow down'), { name: 'ThrottlingException' });
    });
    await expect(kmsKeys({ client: slow.client, keyArn }).generate(context)).rejects.toThrow();
    expect(slow.asked).toHaveLength(1);
  });

  it('an answer without a key, and none in time, are unavailable', async () => {
    const empty = kmsKeys({ client: client(async () => ({})).client, keyArn });
    await expect(empty.generate(context)).rejects.toMatchObject({ code: 'SEALING_UNAVAILABLE' });
    const never = client(
      (signal) =>
        new Promise((_, reject) => {
          signal.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')));
        }),
    );
    const slow = kmsKeys({ client: never.client, keyArn, timeoutMs: 1 });
    await expect(slow.generate(context)).rejects.toMatchObject({
      code: 'SEALING_UNAVAILABLE',
      message: expect.stringContaining('TimeoutError'),
    });
  });

  it('are not wrapped by an alias', () => {
    for (const name of [
      'alias/x',
      'arn:aws:kms:eu-central-1:000000000000:alias/x',
      '1f0c6e5a-0000-4000-8000-000000000001',
      '',
    ]) {
      expect(() => kmsKeys({ client: client(async () => ({})).client, keyArn: name })).toThrow(TypeError);
    }
  });
});
