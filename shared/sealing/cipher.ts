import { createCipheriv, createDecipheriv, hkdfSync, type KeyObject, randomFillSync } from 'node:crypto';
import { SealingError } from './errors.ts';
import { SALT_BYTES, TAG_BYTES } from './sealed-text.ts';

const KEY_BYTES = 32;
const NONCE_BYTES = 12;

/** Gives so many random bytes. */
export type Random = (bytes: number) => Uint8Array;

/** For salts, which are no secret: they may lie in memory that is shared. Takes half of the time of `randomBytes`. */
export const randomSalt: Random = (bytes) => randomFillSync(Buffer.allocUnsafe(bytes));

/** As many as most events have marked fields. */
const SALTS = 8;

/**
 * Salts for one piece of work, drawn together: a draw takes as long for 128 bytes as for 16. It must not be kept: whoever copies a process that sleeps, as
 * snapshots do, would copy salts that are still to be used.
 */
export function saltsForNow(): Random {
  let drawn: Uint8Array = Buffer.alloc(0);
  return (bytes) => {
    if (drawn.length < bytes) drawn = randomSalt(Math.max(bytes, SALTS * SALT_BYTES));
    const salt = drawn.subarray(0, bytes);
    drawn = drawn.subarray(bytes);
    return salt;
  };
}

/**
 * Encrypts under a key and nonce of its own for each salt, so that no number of values under one key can meet a nonce twice.
 *
 * @returns salt ‖ ciphertext ‖ tag
 */
export function encrypt(
  secret: KeyObject,
  label: string,
  plaintext: Uint8Array,
  aad: Uint8Array,
  random: Random,
): Buffer {
  const salt = random(SALT_BYTES);
  const { key, nonce } = derive(secret, salt, label);
  const cipher = createCipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(aad);
  const ciphertext = cipher.update(plaintext);
  cipher.final();
  return Buffer.concat([salt, ciphertext, cipher.getAuthTag()]);
}

export interface Encrypted {
  readonly salt: Uint8Array;
  readonly ciphertext: Uint8Array;
  readonly tag: Uint8Array;
}

/** @throws SealingError (`SEALING_TAMPERED`): another key, another place, or a changed byte; which one cannot be told. */
export function decrypt(secret: KeyObject, label: string, encrypted: Encrypted, aad: Uint8Array): Buffer {
  const { key, nonce } = derive(secret, encrypted.salt, label);
  // Without authTagLength a tag cut to 4 bytes would pass, and be guessed.
  const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(aad);
  try {
    decipher.setAuthTag(encrypted.tag);
    const plaintext = decipher.update(encrypted.ciphertext);
    decipher.final();
    return plaintext;
  } catch {
    throw new SealingError('SEALING_TAMPERED', 'The value was changed, or does not belong to this place.');
  }
}

/** HKDF-SHA-256 (RFC 5869) of a secret, 44 bytes of it: a key and a nonce. */
function derive(
  secret: KeyObject,
  salt: Uint8Array,
  label: string,
): { readonly key: Uint8Array; readonly nonce: Uint8Array } {
  const okm = hkdfSync('sha256', secret, salt, label, KEY_BYTES + NONCE_BYTES);
  return { key: new Uint8Array(okm, 0, KEY_BYTES), nonce: new Uint8Array(okm, KEY_BYTES) };
}
