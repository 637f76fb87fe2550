import type { KMSClientConfig } from '@aws-sdk/client-kms';
import type { KmsKeysOptions } from '../shared/sealing/index.ts';
import { openedOnce } from './opened-once.ts';

/** The calls of KMS that seal and open, and what ends its connections. */
export type KmsClient = KmsKeysOptions['client'] & { destroy(): void };

/**
 * KMS, whose client is loaded when it is first asked, once for all who ask meanwhile: a fifth of a cold start, and many ask nothing. The time that loading takes
 * counts as time of the call.
 */
export function kmsCalls(config: KMSClientConfig): KmsClient {
  let opened: KmsClient | undefined;
  const client = openedOnce(async () => (opened = (await import('./kms-client.ts')).kmsClient(config)));
  return {
    generateDataKey: async (input, options) => (await client()).generateDataKey(input, options),
    encrypt: async (input, options) => (await client()).encrypt(input, options),
    decrypt: async (input, options) => (await client()).decrypt(input, options),
    destroy: () => opened?.destroy(),
  };
}
