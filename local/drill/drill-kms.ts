import { createCipheriv, createDecipheriv, createSecretKey, randomBytes } from 'node:crypto';
import { type Kms, type KmsContext, SealingError } from '../../shared/sealing/index.ts';

export const DRILL_KMS_KEY = 'drill-kms-key';

/** A KMS in this process, for as long as it lives: it survives the loss of the vault, as KMS does. */
export function drillKms(): Kms {
  const secret = createSecretKey(randomBytes(32));
  const wrap = (plaintext: Uint8Array, context: KmsContext) => {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', secret, nonce).setAAD(Buffer.from(JSON.stringify(context)));
    const wrapped = Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
    return { kmsKey: DRILL_KMS_KEY, wrapped };
  };
  return {
    async generate(context) {
      const plaintext = randomBytes(32);
      return { plaintext, ...wrap(plaintext, context) };
    },
    wrap: async (plaintext, context) => wrap(plaintext, context),
    async unwrap({ wrapped }, context) {
      const bytes = Buffer.from(wrapped);
      try {
        const opened = createDecipheriv('aes-256-gcm', secret, bytes.subarray(0, 12))
          .setAAD(Buffer.from(JSON.stringify(context)))
          .setAuthTag(bytes.subarray(-16));
        return Buffer.concat([opened.update(bytes.subarray(12, -16)), opened.final()]);
      } catch {
        throw new SealingError('SEALING_TAMPERED', 'The bytes were wrapped by another key or for another context.');
      }
    },
  };
}
