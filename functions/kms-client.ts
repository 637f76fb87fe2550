import {
  DecryptCommand,
  EncryptCommand,
  GenerateDataKeyCommand,
  KMSClient,
  type KMSClientConfig,
} from '@aws-sdk/client-kms';
import type { KmsClient } from './kms.ts';

/** KMS with three of its fifty calls in the bundle: `KMS`, which has a method for each, would bring them all. */
export function kmsClient(config: KMSClientConfig): KmsClient {
  const kms = new KMSClient(config);
  return {
    generateDataKey: (input, options) => kms.send(new GenerateDataKeyCommand(input), options),
    encrypt: (input, options) => kms.send(new EncryptCommand(input), options),
    decrypt: (input, options) => kms.send(new DecryptCommand(input), options),
    destroy: () => kms.destroy(),
  };
}
