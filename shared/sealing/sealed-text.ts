import { SealingError } from './errors.ts';
import { MAX_JSON_BYTES, paddedBytes } from './plaintext.ts';

export const SALT_BYTES = 16;
export const TAG_BYTES = 16;

/** Stands at a marked place where the person had been erased before the event was written. */
export const ERASED_TEXT = 'erased.1';

const CLASS = '[a-z][a-z0-9-]{0,15}';
/** 128 bits in 22 characters: the last one holds two of them. */
const KEY_ID = '[A-Za-z0-9_-]{21}[AQgw]';
const KEY_VERSION = '[1-9][0-9]{0,9}';
const MAX_KEY_VERSION = 2_147_483_647;

const SEALED = new RegExp(`^sealed\\.1\\.(${CLASS})\\.(${KEY_ID})\\.(${KEY_VERSION})\\.([A-Za-z0-9_-]+)$`);
const KEY_NAME = new RegExp(`^${CLASS}\\.${KEY_ID}\\.${KEY_VERSION}$`);
const WHOLE_CLASS = new RegExp(`^${CLASS}$`);
const WHOLE_KEY_ID = new RegExp(`^${KEY_ID}$`);

const MIN_BODY_BYTES = SALT_BYTES + paddedBytes(0) + TAG_BYTES;
const MAX_BODY_BYTES = SALT_BYTES + paddedBytes(MAX_JSON_BYTES) + TAG_BYTES;
const HEADER_CHARACTERS = 'sealed.1.'.length + 16 + 1 + 22 + 1 + 10 + 1;
/** Base64url without padding. */
const MAX_CHARACTERS = HEADER_CHARACTERS + Math.ceil((MAX_BODY_BYTES * 4) / 3);
const MIN_BODY_CHARACTERS = Math.ceil((MIN_BODY_BYTES * 4) / 3);

/** Which key seals a value. All of it stands in the sealed text and is authenticated. */
export interface KeyName {
  /** Class of data: whoever may read it gets the key. `[a-z][a-z0-9-]{0,15}` */
  readonly class: string;
  /** 128 random bits in base64url. Says nothing about the person. */
  readonly keyId: string;
  /** From 1. */
  readonly version: number;
}

export interface SealedParts {
  readonly key: KeyName;
  readonly salt: Buffer;
  readonly ciphertext: Buffer;
  readonly tag: Buffer;
}

export const isClassName = (text: string): boolean => WHOLE_CLASS.test(text);

/** One text for each key: `class.id.version`. */
export function keyNameText({ class: className, keyId, version }: KeyName): string {
  return `${className}.${keyId}.${version}`;
}

export function isKeyName(text: unknown): text is string {
  return typeof text === 'string' && KEY_NAME.test(text) && keyNameOf(text).version <= MAX_KEY_VERSION;
}

/** The opposite of `keyNameText`, for a text that `isKeyName`. */
export function keyNameOf(text: string): KeyName {
  const [className = '', keyId = '', version] = text.split('.');
  return { class: className, keyId, version: Number(version) };
}

/**
 * What sealed strings of a class look like, erased ones included, as a regular expression that JSON Schema and PostgreSQL
 * read alike. It tells sealed from clear; `parseSealed` says whether each detail is right.
 */
export function sealedPattern(className: string): string {
  return `^(erased\\.1|sealed\\.1\\.${className}\\.${KEY_ID}\\.${KEY_VERSION}\\.[A-Za-z0-9_-]{${MIN_BODY_CHARACTERS},})$`;
}

/** Whether a text claims to be sealed by us, well or badly. */
export function looksSealed(text: string): boolean {
  return text === ERASED_TEXT || (text.length <= MAX_CHARACTERS && SEALED.test(text));
}

/**
 * Reads a sealed text. There is one way to write each: everything else is refused.
 *
 * @returns null for a text that does not begin as one.
 * @throws SealingError `SEALING_MALFORMED`, `SEALING_LIMIT`
 */
export function parseSealed(text: string): SealedParts | null {
  if (!text.startsWith('sealed.')) return null;
  if (text.length > MAX_CHARACTERS) {
    throw new SealingError('SEALING_LIMIT', `A sealed value has at most ${MAX_CHARACTERS} characters.`);
  }
  const match = SEALED.exec(text);
  if (match === null) throw malformed('its parts are not those of format 1');
  const [, className = '', keyId = '', digits = '', body = ''] = match;
  const version = Number(digits);
  if (version > MAX_KEY_VERSION) throw malformed('its key version is too large');
  if (!isCanonical(body)) throw malformed('its base64url is not canonical');
  const bytes = Buffer.from(body, 'base64url');
  if (bytes.length < MIN_BODY_BYTES || bytes.length % 16 !== 0)
    throw malformed('its length is none that sealing makes');
  return {
    key: { class: className, keyId, version },
    salt: bytes.subarray(0, SALT_BYTES),
    ciphertext: bytes.subarray(SALT_BYTES, -TAG_BYTES),
    tag: bytes.subarray(-TAG_BYTES),
  };
}

/**
 * Whether characters of base64url end as bytes are written: one character beyond a multiple of four holds no whole byte, and bits beyond the last byte are
 * zeros. Else there would be a second way to write the same bytes.
 */
export function isCanonical(characters: string): boolean {
  const last = characters.at(-1) ?? '';
  switch (characters.length % 4) {
    case 1:
      return false;
    case 2:
      return 'AQgw'.includes(last);
    case 3:
      return 'AEIMQUYcgkosw048'.includes(last);
    default:
      return true;
  }
}

/** @throws TypeError for a key name that breaks the grammar: no text that holds it could be read again. */
export function formatSealed({ class: className, keyId, version }: KeyName, body: Buffer): string {
  if (!isClassName(className)) throw new TypeError('The class of a key must be [a-z][a-z0-9-]{0,15}.');
  if (!WHOLE_KEY_ID.test(keyId)) throw new TypeError('The id of a key must be 128 bits as 22 characters of base64url.');
  if (!Number.isInteger(version) || version < 1 || version > MAX_KEY_VERSION) {
    throw new TypeError(`The version of a key must be a whole number from 1 to ${MAX_KEY_VERSION}.`);
  }
  return `sealed.1.${className}.${keyId}.${version}.${body.toString('base64url')}`;
}

function malformed(reason: string): SealingError {
  return new SealingError('SEALING_MALFORMED', `The text begins as a sealed value and is none: ${reason}.`);
}
