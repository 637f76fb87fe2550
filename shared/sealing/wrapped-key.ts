import { type KeyObject, randomBytes } from 'node:crypto';
import { lengthPrefixed, lowerCaseUuid } from './associated-data.ts';
import { decrypt, encrypt, type Random } from './cipher.ts';
import { SealingError } from './errors.ts';
import { SALT_BYTES, TAG_BYTES } from './sealed-text.ts';
import { type SubjectKey, subjectKey } from './value.ts';

const LABEL = 'sealed-outbox.key.1';
const FORMAT = 1;
const SECRET_BYTES = 32;
const WRAPPED_BYTES = 1 + SALT_BYTES + SECRET_BYTES + TAG_BYTES;

/** Whose data it is. */
export interface Subject {
  /** Such as `customer`. */
  readonly kind: string;
  /** Opaque: a random id, never an e-mail address or another thing that names the person. */
  readonly id: string;
}

/** The one row of a vault that a wrapped key belongs to. */
export interface WrappingContext {
  readonly vault: string;
  readonly branchVersion: number;
  readonly subject: Subject;
}

/** @returns 0x01 ‖ salt ‖ ciphertext ‖ tag: 65 bytes */
export function wrapSubjectKey(
  branch: KeyObject,
  key: SubjectKey,
  context: WrappingContext,
  random: Random = randomBytes,
): Buffer {
  const aad = wrappingData(key, context);
  return Buffer.concat([Buffer.of(FORMAT), encrypt(branch, LABEL, key.secret.export(), aad, random)]);
}

/** @throws SealingError `SEALING_MALFORMED`, or `SEALING_TAMPERED`: another branch key, another row, or a changed byte. */
export function unwrapSubjectKey(
  branch: KeyObject,
  wrapped: Uint8Array,
  name: Pick<SubjectKey, 'class' | 'keyId' | 'version'>,
  context: WrappingContext,
): SubjectKey {
  if (wrapped.length !== WRAPPED_BYTES || wrapped[0] !== FORMAT) {
    throw new SealingError('SEALING_MALFORMED', 'The bytes are not a wrapped key of format 1.');
  }
  const encrypted = {
    salt: wrapped.subarray(1, 1 + SALT_BYTES),
    ciphertext: wrapped.subarray(1 + SALT_BYTES, -TAG_BYTES),
    tag: wrapped.subarray(-TAG_BYTES),
  };
  return subjectKey(name, decrypt(branch, LABEL, encrypted, wrappingData(name, context)));
}

function wrappingData(
  { class: className, keyId, version }: Pick<SubjectKey, 'class' | 'keyId' | 'version'>,
  { vault, branchVersion, subject }: WrappingContext,
): Buffer {
  return lengthPrefixed([
    'sealed-outbox.key.1',
    vault,
    className,
    String(branchVersion),
    subject.kind,
    lowerCaseUuid(subject.id),
    keyId,
    String(version),
  ]);
}
