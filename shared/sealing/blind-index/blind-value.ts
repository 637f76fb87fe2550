import { createHmac, hkdfSync, type KeyObject } from 'node:crypto';
import { lengthPrefixed } from '../associated-data.ts';
import { isClassName } from '../sealed-text.ts';
import type { Normaliser } from './normalise.ts';

const LABEL = 'sealed-outbox.index.1';
const KEY_BYTES = 32;
const PREFIX_BYTES = 5;

/** An index over the sealed values of a class, as a program declares it: see `blindIndex`. */
export interface BlindIndex {
  /** `[a-z][a-z0-9-]{0,62}`. Bound to every value: it never changes. */
  readonly name: string;
  /** Of the values: whoever may not have it gets no key of the index from KMS. */
  readonly class: string;
  readonly normaliser: Normaliser;
  /** Of the HMAC that are kept: 8 to 256, a multiple of 8. */
  readonly bits: number;
  /** Normalisers of values that may still stand in the column. They are searched for, and no longer written. */
  readonly earlier: readonly Normaliser[];
}

export interface BlindIndexOptions extends Pick<BlindIndex, 'name' | 'class' | 'normaliser'> {
  /** Default: what the normaliser says: 256, for tax ids and phone numbers 16. It never changes. */
  readonly bits?: number;
  readonly earlier?: readonly Normaliser[];
}

/**
 * Declares an index: equal values of a column can be found without opening all.
 *
 * ```ts
 * const customerEmail = blindIndex({ name: 'customer-email', class: 'contact', normaliser: email });
 * ```
 *
 * @throws TypeError for what breaks the grammar, and for two normalisers of one version
 */
export function blindIndex({
  name,
  class: className,
  normaliser,
  earlier = [],
  ...more
}: BlindIndexOptions): BlindIndex {
  const bits = more.bits ?? normaliser.bits;
  if (!/^[a-z][a-z0-9-]{0,62}$/.test(name)) {
    throw new TypeError('The name of an index must be 1-63 of a-z 0-9 - and start with a letter.');
  }
  if (!isClassName(className)) throw new TypeError('The class of an index must be [a-z][a-z0-9-]{0,15}.');
  if (bits % 8 !== 0 || bits < 8 || bits > 256) throw new TypeError('An index has 8 to 256 bits, a multiple of 8.');
  const versions = [normaliser, ...earlier].map(({ version }) => version);
  const isVersion = (version: number): boolean => Number.isInteger(version) && version >= 1 && version <= 255;
  if (!versions.every(isVersion) || new Set(versions).size < versions.length) {
    throw new TypeError('The versions of normalisers are whole numbers from 1 to 255, each once in an index.');
  }
  if (earlier.some(({ version }) => version > normaliser.version)) {
    throw new TypeError('Earlier normalisers of an index have lower versions than its own.');
  }
  return { name, class: className, normaliser, bits, earlier };
}

/**
 * The value that stands in the index column: u32be(key version) ‖ normaliser version ‖ the first bits of an HMAC.
 *
 * @param key of the index, in that version
 * @returns null where nothing is left to look for after normalising
 */
export function blindValue(
  key: KeyObject,
  keyVersion: number,
  index: Pick<BlindIndex, 'name' | 'bits'>,
  normaliser: Normaliser,
  text: string,
): Buffer | null {
  const normalised = normaliser.normalise(text);
  if (normalised === null) return null;
  const info = lengthPrefixed([LABEL, index.name, normaliser.name, String(normaliser.version)]);
  const derived = Buffer.from(hkdfSync('sha256', key, Buffer.alloc(0), info, KEY_BYTES));
  const hmac = createHmac('sha256', derived).update(normalised, 'utf8').digest();
  return Buffer.concat([valuePrefix(keyVersion, normaliser.version), hmac.subarray(0, index.bits / 8)]);
}

/** What values of these versions begin with. All values of older versions are less, byte by byte. */
export function valuePrefix(keyVersion: number, normaliserVersion: number): Buffer {
  const prefix = Buffer.alloc(PREFIX_BYTES);
  prefix.writeUInt32BE(keyVersion);
  prefix[4] = normaliserVersion;
  return prefix;
}
