/**
 * How the spellings of one value become one text. What it does may never change under the same version: values that were written
 * would no longer be found.
 */
export interface Normaliser {
  /** `[a-z][a-z0-9-]{0,30}` */
  readonly name: string;
  /** 1 to 255. */
  readonly version: number;
  /** Of the index value, where the index does not say. A multiple of 8. */
  readonly bits: number;
  /** Null where nothing is left to look for. */
  normalise(text: string): string | null;
}

/** Enough for no two values to meet by chance. */
const WHOLE = 256;
/**
 * Whoever holds the key of an index can try all values there are. Ten digits fall in minutes; with 16 bits 150,000 of them stay for each
 * index value, and which one it is only opening tells.
 */
const TRUNCATED = 16;

/** Upper and lower case, dots and spaces of an address mean nothing; its domain stays as it was written, `xn--` or not. */
export const email: Normaliser = {
  name: 'email',
  version: 1,
  bits: WHOLE,
  normalise: (text) => orNull(folded(text).replaceAll(/\s+/gu, '')),
};

/** Names of people and firms: case, spaces, and the kinds of apostrophes and dashes mean nothing; accents do. */
export const personName: Normaliser = {
  name: 'name',
  version: 1,
  bits: WHOLE,
  normalise: (text) =>
    orNull(
      folded(text.replaceAll(/[\u2018\u2019\u02BC\u0060\u00B4]/gu, "'"))
        .replaceAll(/\p{Pd}/gu, '-')
        .replaceAll(/\s+/gu, ' ')
        .trim(),
    ),
};

/** Letters and digits alone: dots, dashes, slashes and spaces mean nothing. */
export const taxId: Normaliser = {
  name: 'tax-id',
  version: 1,
  bits: TRUNCATED,
  normalise: (text) => orNull(folded(text).replaceAll(/[^\p{L}\p{Nd}]/gu, '')),
};

/**
 * Phone numbers in international form: `+90 (0)532 …`, `0090 532 …` and, of the country given, `0532 …` are one.
 *
 * @param country the calling code of numbers without one, such as `90`. In countries whose numbers keep their zero abroad (Italy),
 * hand in international numbers only.
 */
export function phone(country: string): Normaliser {
  if (!/^[1-9][0-9]{0,2}$/.test(country))
    throw new TypeError('The calling code of a country has 1-3 digits, without + or 0.');
  return {
    name: `phone-${country}`,
    version: 1,
    bits: TRUNCATED,
    normalise(text) {
      const dialled = folded(text)
        .replaceAll('(0)', '')
        .replaceAll(/[^0-9+]/gu, '');
      const digits = dialled.replaceAll('+', '');
      if (digits === '') return null;
      if (dialled.startsWith('+')) return `+${digits}`;
      if (digits.startsWith('00')) return `+${digits.slice(2)}`;
      return `+${country}${digits.startsWith('0') ? digits.slice(1) : digits}`;
    },
  };
}

/** One of these by its `name`. @returns undefined for a name that none of them has */
export function normaliserNamed(name: string): Normaliser | undefined {
  const [, country] = /^phone-([1-9][0-9]{0,2})$/.exec(name) ?? [];
  return country === undefined ? [email, personName, taxId].find((one) => one.name === name) : phone(country);
}

/**
 * One text for all cases and encodings. By way of upper case, because only there `ß` is `SS` (and `ẞ` is `ß` only in lower case); the four letters
 * i (I, ı, İ, i) are one, because who types `ISPARTA` may mean either; the final sigma is a sigma.
 */
function folded(text: string): string {
  return text
    .normalize('NFKD')
    .replaceAll(/\p{Default_Ignorable_Code_Point}|\p{Cc}(?<!\s)/gu, '')
    .normalize('NFKC')
    .toLowerCase()
    .toUpperCase()
    .toLowerCase()
    .replaceAll('ς', 'σ')
    .normalize('NFKD')
    .replaceAll(/(?<=i\p{M}*)\u0307/gu, '')
    .normalize('NFKC');
}

/** Text without UTF-8 cannot be sealed, and so not be found. */
function orNull(text: string): string | null {
  return text === '' || !text.isWellFormed() ? null : text;
}
