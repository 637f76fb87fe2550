import { describe, expect, it, vi } from 'vitest';
import {
  functionKeyring,
  functionKeys,
  keyringConfig,
  KeyringConfigError,
  withErrorsCounted,
} from '../../../functions/keyring.ts';
import { openedOnce } from '../../../functions/opened-once.ts';
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
      erasureLog: undefined,
    });
  });

  it('names the log of erasures, where there is one', () => {
    const place = (SEALING_ERASURE_LOG: string) => keyringConfig({ ...environment, SEALING_ERASURE_LOG }).erasureLog;
    expect(place('erasures-of-invoices')).toEqual({ bucket: 'erasures-of-invoices' });
    expect(place('file:///var/erasures')).toEqual({ folder: '/var/erasures' });
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
    ['SEALING_ERASURE_LOG', 's3://bucket'],
    ['SEALING_ERASURE_LOG', 'file://relative'],
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

describe('what is opened when it is first asked', () => {
  it('is opened once, for all who ask meanwhile', async () => {
    let opened = 0;
    const open = openedOnce(async () => (opened += 1));
    expect(opened).toBe(0);
    expect(await Promise.all([open(), open()])).toEqual([1, 1]);
    expect(await open()).toBe(1);
  });

  it('is tried again after a failure, which all who have waited for it hear of', async () => {
    const tries: (() => Promise<string>)[] = [
      () => Promise.reject(new Error('EAI_AGAIN')),
      () => {
        throw new Error('EMFILE');
      },
      async () => 'open',
    ];
    const open = openedOnce(async () => tries.shift()!());
    expect((await Promise.allSettled([open(), open()])).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    await expect(open()).rejects.toThrow('EMFILE');
    expect(await open()).toBe('open');
    expect(tries).toEqual([]);
  });
});

describe('the log of erasures of a function', () => {
  it('is opened by whoever needs it next where its client could not be loaded at first', async () => {
    const content = Buffer.from('{}');
    const client = { getObject: async () => ({ Body: { transformToByteArray: async () => content } }), destroy() {} };
    vi.doMock('../../../functions/s3-client.ts', () => {
      vi.doMock('../../../functions/s3-client.ts', () => ({ s3Client: () => client }));
      throw new Error('EMFILE: too many open files');
    });
    const { erasures } = functionKeys(pool, {
      ...environment,
      AWS_REGION: 'eu-central-1',
      SEALING_ERASURE_LOG: 'erasures-of-invoices',
    });
    await expect(erasures!.read('entry/000000000001.json')).rejects.toThrow();
    expect(await erasures!.read('entry/000000000001.json')).toEqual(content);
    vi.doUnmock('../../../functions/s3-client.ts');
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
