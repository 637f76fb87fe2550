import { describe, expect, it } from 'vitest';
import { functionKeyring, keyringConfig, KeyringConfigError, withErrorsCounted } from '../../../functions/keyring.ts';
import type { KmsContext } from '../../../shared/sealing/index.ts';
import { fakeKms } from '../../support/keyring.ts';
import { recordingMetrics } from '../../support/recorders.ts';

const environment = {
  SEALING_VAULT: 'invoices',
  SEALING_KEY_ARN: 'arn:aws:kms:eu-central-1:123456789012:key/mrk-1234abcd12ab34cd56ef1234567890ab',
};
const pool = { totalCount: 0, query: async () => ({ rows: [] }) };

describe('the environment of a keyring', () => {
  it('names the vault and the KMS key', () => {
    expect(keyringConfig(environment)).toEqual({
      vault: environment.SEALING_VAULT,
      keyArn: environment.SEALING_KEY_ARN,
    });
  });

  it.each([
    ['SEALING_VAULT', undefined],
    ['SEALING_VAULT', ''],
    ['SEALING_VAULT', 'Invoices'],
    ['SEALING_VAULT', '1st'],
    ['SEALING_KEY_ARN', undefined],
    ['SEALING_KEY_ARN', ''],
    ['SEALING_KEY_ARN', 'arn:aws:kms:eu-central-1:123456789012:alias/invoices'],
    ['SEALING_KEY_ARN', '1234abcd-12ab-34cd-56ef-1234567890ab'],
  ])('is refused with %s=%s at start, and the error names the variable', (name, value) => {
    const broken = { ...environment, [name]: value };
    expect(() => keyringConfig(broken)).toThrow(KeyringConfigError);
    expect(() => functionKeyring(pool, broken)).toThrow(
      expect.objectContaining({ code: 'KEYRING_CONFIG', message: expect.stringMatching(`^${name} `) }),
    );
  });

  it('makes a keyring, without a call to anybody', async () => {
    const keyring = functionKeyring(pool, { ...environment, AWS_REGION: 'eu-central-1' });
    const keys = await keyring.keysToSeal([]);
    expect(keys('contact', { kind: 'customer', id: '1' })).toBeUndefined();
  });
});

describe('calls of KMS', () => {
  const context: KmsContext = { vault: 'invoices', class: 'contact', version: '1', purpose: 'branch' };

  it('are counted where they fail, and only there', async () => {
    const kms = fakeKms();
    const metrics = recordingMetrics();
    const counted = withErrorsCounted(kms, metrics);
    const key = await counted.generate(context);
    expect(await counted.unwrap(key, context)).toEqual(key.plaintext);
    expect(metrics.sum('KmsErrors')).toBe(0);
    kms.failure = 'SEALING_THROTTLED';
    for (const call of [
      counted.generate(context),
      counted.wrap(key.plaintext, context),
      counted.unwrap(key, context),
    ]) {
      await expect(call).rejects.toMatchObject({ code: 'SEALING_THROTTLED' });
    }
    expect(metrics.sum('KmsErrors')).toBe(3);
  });
});
