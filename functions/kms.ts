import type { KMSClientConfig } from '@aws-sdk/client-kms';
import type { KmsKeysOptions } from '../shared/sealing/index.ts';

/** The calls of KMS that seal and open, and what ends its connections. */
export type KmsClient = KmsKeysOptions['client'] & { destroy(): void };

/**
 * KMS, whose client is loaded when it is first asked, once for all who ask meanwhile: a fifth of a cold start, and many ask nothing. The time that loading takes
 * counts as time of the call.
 */
export function kmsCalls(config: KMSClientConfig): KmsClient {
  let loaded: Promise<KmsClient> | undefined;
  const client = (): Promise<KmsClient> =>
    (loaded ??= import('./kms-client.ts').then(({ kmsClient }) => kmsClient(config)));
  return {
    generateDataKey: async (input, options) => (await client()).generateDataKey(input, options),
    encrypt: async (input, options) => (await client()).encrypt(input, options),
    decrypt: async (input, options) => (await client()).decrypt(input, options),
    // Whoever asked has been told if it could not be loaded.
    destroy: () => void loaded?.then((opened) => opened.destroy()).catch(() => {}),
  };
}
