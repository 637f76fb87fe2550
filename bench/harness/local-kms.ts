import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { Kms, KmsContext, WrappedKey } from '../../shared/sealing/index.ts';

/** A KMS in this process, as far away as AWS's within a region, that counts its calls. */
export interface LocalKms extends Kms {
  readonly calls: { readonly call: 'generate' | 'wrap' | 'unwrap'; readonly context: KmsContext }[];
}

export function localKms(answersAfterMs = 5): LocalKms {
  const key = randomBytes(32);
  const calls: LocalKms['calls'] = [];
  const aad = ({ vault, class: className, version, purpose }: KmsContext): Buffer =>
    Buffer.from(JSON.stringify([vault, className, version, purpose]));
  const wrap = (plaintext: Uint8Array, context: KmsContext): WrappedKey => {
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: 16 }).setAAD(aad(context));
    const ciphertext = Buffer.concat([cipher.update(plaintext), cipher.final()]);
    return { kmsKey: 'local', wrapped: Buffer.concat([nonce, ciphertext, cipher.getAuthTag()]) };
  };
  return {
    calls,
    async generate(context) {
      calls.push({ call: 'generate', context });
      await delay(answersAfterMs);
      const plaintext = randomBytes(32);
      return { ...wrap(plaintext, context), plaintext };
    },
    async wrap(plaintext, context) {
      calls.push({ call: 'wrap', context });
      await delay(answersAfterMs);
      return wrap(plaintext, context);
    },
    async unwrap({ wrapped }, context) {
      calls.push({ call: 'unwrap', context });
      await delay(answersAfterMs);
      const bytes = Buffer.from(wrapped);
      const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, 12), { authTagLength: 16 })
        .setAAD(aad(context))
        .setAuthTag(bytes.subarray(-16));
      return Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]);
    },
  };
}
