import { DecryptCommand, EncryptCommand, GenerateDataKeyCommand, KMSClient } from '@aws-sdk/client-kms';
import { mockClient } from 'aws-sdk-client-mock';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { kmsCalls } from '../../../functions/kms.ts';
import { kmsKeys, type KmsContext } from '../../../shared/sealing/index.ts';

const keyArn = 'arn:aws:kms:eu-central-1:000000000000:key/1f0c6e5a-0000-4000-8000-000000000001';
const context: KmsContext = { vault: 'test', class: 'contact', version: '1', purpose: 'branch' };
const key = { kmsKey: keyArn, wrapped: Uint8Array.of(1) };

const mock = mockClient(KMSClient);
afterEach(() => mock.reset());
afterAll(() => mock.restore());

const opened = (): ReturnType<typeof kmsCalls> => kmsCalls({ region: 'eu-central-1', maxAttempts: 1 });

/** The clients that were asked. */
function asked(): Set<unknown> {
  return new Set(mock.send.getCalls().map(({ thisValue }) => thisValue));
}

describe('KMS of a function', () => {
  it('is one client, however many ask before it is loaded', async () => {
    mock
      .on(GenerateDataKeyCommand)
      .resolves({ KeyId: keyArn, Plaintext: Uint8Array.of(1), CiphertextBlob: key.wrapped });
    mock.on(EncryptCommand).resolves({ KeyId: keyArn, CiphertextBlob: key.wrapped });
    mock.on(DecryptCommand).resolves({ Plaintext: Uint8Array.of(2) });
    const kms = kmsKeys({ client: opened(), keyArn });
    const answers = await Promise.all([
      kms.generate(context),
      kms.wrap(Uint8Array.of(1), context),
      kms.unwrap(key, context),
      kms.unwrap(key, context),
    ]);
    expect(answers[3]).toEqual(Uint8Array.of(2));
    expect(mock.calls()).toHaveLength(4);
    expect(asked().size).toBe(1);
  });

  it.each([
    ['ThrottlingException', 'SEALING_THROTTLED'],
    ['AccessDeniedException', 'SEALING_DENIED'],
    ['DisabledException', 'SEALING_KEY_DISABLED'],
    ['InvalidCiphertextException', 'SEALING_TAMPERED'],
    ['KMSInternalException', 'SEALING_UNAVAILABLE'],
  ])('tells everybody who asked before it was loaded: %s is %s', async (name, code) => {
    mock.rejects(Object.assign(new Error('m'), { name }));
    const kms = kmsKeys({ client: opened(), keyArn });
    const told = await Promise.allSettled([kms.unwrap(key, context), kms.generate(context)]);
    expect(told).toMatchObject([{ reason: { code } }, { reason: { code } }]);
  });

  it('is ended with its connections, if it was ever loaded', async () => {
    const destroy = vi.spyOn(KMSClient.prototype, 'destroy');
    try {
      opened().destroy();
      mock.on(DecryptCommand).resolves({ Plaintext: Uint8Array.of(2) });
      const client = opened();
      await kmsKeys({ client, keyArn }).unwrap(key, context);
      client.destroy();
      await vi.waitFor(() => expect(destroy).toHaveBeenCalled());
      expect(new Set(destroy.mock.contexts)).toEqual(asked());
      expect(destroy).toHaveBeenCalledTimes(1);
    } finally {
      destroy.mockRestore();
    }
  });
});
