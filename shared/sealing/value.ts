import { createSecretKey, type KeyObject } from 'node:crypto';
import { associatedData, type SealingContext } from './associated-data.ts';
import { decrypt, encrypt, type Random, randomSalt } from './cipher.ts';
import { SealingError, SealingRefusedError } from './errors.ts';
import { decodePlaintext, encodePlaintext } from './plaintext.ts';
import { ERASED_TEXT, formatSealed, type KeyName, looksSealed, parseSealed } from './sealed-text.ts';
import { Sealed } from './sealed.ts';

const LABEL = 'sealed-outbox.value.1';
const SECRET_BYTES = 32;

/** One version of a person's key for one class of data. Printing it shows no byte of the secret. */
export interface SubjectKey extends KeyName {
  readonly secret: KeyObject;
}

/** @param secret 32 bytes from a cryptographic source; they are copied. */
export function subjectKey(name: KeyName, secret: Uint8Array): SubjectKey {
  if (secret.length !== SECRET_BYTES) throw new TypeError(`A key has ${SECRET_BYTES} bytes.`);
  return { class: name.class, keyId: name.keyId, version: name.version, secret: createSecretKey(secret) };
}

/**
 * Seals one value for one place.
 *
 * ```ts
 * const text = sealValue('Ada Lovelace', key, { in: 'row', store: 'invoices', table: 'customer', primaryKey: id, column: 'name' });
 * ```
 *
 * @throws SealingRefusedError (`SEALING_REFUSED`): null, a value that is sealed already, one that JSON would change, one over 256 KiB.
 */
export function sealValue(
  value: unknown,
  key: SubjectKey,
  context: SealingContext,
  random: Random = randomSalt,
): string {
  if (value instanceof Sealed || (typeof value === 'string' && looksSealed(value))) {
    throw new SealingRefusedError('is sealed already');
  }
  const aad = associatedData(key, context);
  return formatSealed(key, encrypt(key.secret, LABEL, encodePlaintext(value), aad, random));
}

/**
 * Opens what `sealValue` made for this place.
 *
 * @throws SealingError `SEALING_TAMPERED`, `SEALING_MALFORMED`, `SEALING_LIMIT`, or `SEALING_KEY_UNKNOWN` when another key sealed it.
 */
export function openValue(text: string, key: SubjectKey, context: SealingContext): unknown {
  const parts = parseSealed(text);
  if (parts === null) throw new SealingError('SEALING_MALFORMED', 'The text is not a sealed value.');
  const { class: className, keyId, version } = parts.key;
  if (className !== key.class || keyId !== key.keyId || version !== key.version) {
    throw new SealingError('SEALING_KEY_UNKNOWN', 'The value was sealed with another key than the one given.');
  }
  return decodePlaintext(decrypt(key.secret, LABEL, parts, associatedData(key, context)));
}

/** A place, and the key with which a value is read or written there. */
export interface KeyedPlace {
  readonly key: SubjectKey;
  readonly context: SealingContext;
}

/**
 * Moves a sealed value to another place, to another version of its key, or both. That a person was erased moves along.
 *
 * @throws what `openValue` throws
 */
export function reseal(text: string, from: KeyedPlace, to: KeyedPlace, random: Random = randomSalt): string {
  if (text === ERASED_TEXT) return text;
  return sealValue(openValue(text, from.key, from.context), to.key, to.context, random);
}
