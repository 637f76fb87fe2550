import { createSecretKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { email, type Normaliser, personName, phone, taxId } from '../../../shared/sealing/index.ts';
import { blindIndex, blindValue } from '../../../shared/sealing/blind-index/blind-value.ts';
import { anyText } from '../../support/any-text.ts';

interface IndexVector {
  readonly index: string;
  readonly secret: string;
  readonly keyVersion: number;
  readonly normaliser: string;
  readonly normaliserVersion: number;
  readonly bits: number;
  readonly text: string;
  readonly normalised: string | null;
  readonly value: string | null;
}

const vectors = JSON.parse(await readFile('test/vectors/sealing.json', 'utf8')) as { indexes: IndexVector[] };
const NORMALISERS: readonly Normaliser[] = [email, personName, taxId, phone('90')];

it.each(vectors.indexes)('index values are what the other implementation makes: $normaliser, $text', (vector) => {
  const normaliser = NORMALISERS.find(({ name }) => name === vector.normaliser)!;
  expect(normaliser.version).toBe(vector.normaliserVersion);
  expect(normaliser.normalise(vector.text)).toBe(vector.normalised);
  const key = createSecretKey(Buffer.from(vector.secret, 'hex'));
  const index = { name: vector.index, bits: vector.bits };
  const value = blindValue(key, vector.keyVersion, index, normaliser, vector.text);
  expect(value?.toString('hex') ?? null).toBe(vector.value);
});

describe('case 50: one value for all spellings', () => {
  test.each<[string, Normaliser, readonly string[]]>([
    ['the four letters i', personName, ['IŞIK İBRAHİM', 'Işık İbrahim', 'ışık ibrahim', 'isik ibrahim'.replace('s', 'ş'), 'I\u0307S\u0327IK IBRAHIM']],
    ['Turkish letters', personName, ['Çağrı Şahin', 'ÇAĞRI ŞAHİN', 'c\u0327ag\u0306rı  s\u0327ahin', ' çağri şahın ']],
    ['German letters', personName, ['Jürgen Groß', 'JÜRGEN GROSS', 'JÜRGEN GROẞ', 'ju\u0308rgen gross']],
    ['Greek letters', personName, ['Σίσυφος Αθηνά', 'ΣΊΣΥΦΟΣ ΑΘΗΝΆ', 'σι\u0301συφοσ αθηνα\u0301']],
    ['apostrophes, dashes and spaces', personName, ['O’Brien–Smith', "o'brien-smith", ' O\u00b4Brien\u2011SMITH\u00a0']],
    ['full-width letters and ligatures', personName, ['Ａｄａ ﬁnn', 'ada FINN']],
    ['addresses', email, ['Info@Example.com', ' ınfo@example.COM ', 'İNFO@EXAMPLE.COM', 'i\u0307nfo@example.com', 'ｉnfo＠example.com', 'in\u200bfo@example.com']],
    ['addresses in German', email, ['müller@straße.example', 'MU\u0308LLER@STRASSE.EXAMPLE']],
    ['tax ids', taxId, ['123-456/78 90', '１２３４５６７８９０', '1234567890']],
    ['tax ids with letters', taxId, ['DE 136 695 976', 'de136695976']],
    ['phone numbers', phone('90'), ['0532 111 22 33', '+90 (0)532 111-22-33', '00905321112233', '５３２1112233', '+90\u00a0532 1112233']],
  ])('%s', (_, normaliser, spellings) => {
    expect(new Set(spellings.map((it) => normaliser.normalise(it))).size).toBe(1);
    expect(new Set(spellings.map((it) => normaliser.normalise(it.normalize('NFD')))).size).toBe(1);
    expect(normaliser.normalise(spellings[0]!)).toBe(normaliser.normalise(spellings[0]!.normalize('NFD')));
  }); // oxfmt-ignore

  test.each<[string, Normaliser, string, string]>([
    ['accents', personName, 'Şahin', 'Sahin'],
    ['umlauts', personName, 'Müller', 'Mueller'],
    ['names that run together', personName, 'Ada Love', 'Adalove'],
    ['local parts', email, 'ada@example.com', 'a.da@example.com'],
    ['countries', phone('90'), '+49 532 111', '0532 111'],
    ['digits', taxId, '123', '0123'],
  ])('like case 50: but not for other %s', (_, normaliser, one, other) => {
    expect(normaliser.normalise(one)).not.toBe(normaliser.normalise(other));
  });

  it('like case 50: any text in letters of these languages, in whatever case and encoding', () => {
    const LETTERS = 'aAbBiIıİsSşŞgGğĞçÇöÖüÜßẞäÄσΣςάΆήΐϊώ éÉ-ﬁjǰ'.split('');
    const forms = [
      (it: string) => it.normalize('NFC'),
      (it: string) => it.normalize('NFD'),
      (it: string) => it.toUpperCase(),
      (it: string) => it.toLowerCase(),
      (it: string) => it.toLocaleUpperCase('tr'),
      (it: string) => it.toLocaleLowerCase('tr'),
      (it: string) => it.toLocaleUpperCase('tr').normalize('NFD'),
    ];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...LETTERS)), fc.constantFrom(...forms), (letters, form) => {
        const text = letters.join('');
        for (const normaliser of [email, personName, taxId]) {
          expect(normaliser.normalise(form(text))).toBe(normaliser.normalise(text));
        }
      }),
    );
  });

  it('like case 50: what was normalised stays as it is, whatever it was', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        for (const normaliser of NORMALISERS) {
          const once = normaliser.normalise(text);
          if (!text.isWellFormed()) expect(once?.isWellFormed() ?? true).toBe(true);
          if (once !== null && normaliser !== NORMALISERS[3]) expect(normaliser.normalise(once)).toBe(once);
        }
      }),
    );
  });

  it('there is nothing to find in what holds no letter', () => {
    for (const text of ['', '  ', '\u200b', '\ud83d']) {
      for (const normaliser of NORMALISERS) expect(normaliser.normalise(text)).toBeNull();
    }
  });
});

describe('an index value', () => {
  const key = createSecretKey(Buffer.alloc(32, 7));
  const index = blindIndex({ name: 'customer-email', class: 'contact', normaliser: email });
  const value = (more: Partial<typeof index> = {}, version = 1, secret = key): string =>
    blindValue(secret, version, { ...index, ...more }, more.normaliser ?? email, 'ada@example.com')!.toString('hex');

  it('is another for another key, version, index and normaliser', () => {
    const others = [
      value(),
      value({}, 2),
      value({ name: 'customer-mail' }),
      value({ normaliser: { ...email, version: 2 } }),
      value({ normaliser: { ...email, name: 'mail' } }),
      value({}, 1, createSecretKey(Buffer.alloc(32, 8))),
    ].map((it) => it.slice(10));
    // The prefix aside: the version of the key says which key it is, and is not mixed in.
    expect(new Set(others).size).toBe(5);
    expect(value({}, 2).slice(10)).toBe(value().slice(10));
  });

  it('is truncated for what could be tried out, by default', () => {
    const bits = (normaliser: Normaliser): number => blindIndex({ name: 'x', class: 'contact', normaliser }).bits;
    expect([email, personName, taxId, phone('49')].map(bits)).toEqual([256, 256, 16, 16]);
    expect(value()).toHaveLength(2 * 37);
    expect(value({ bits: 16 })).toHaveLength(2 * 7);
  });

  test.each([
    { name: 'Customer' },
    { name: '' },
    { class: 'Contact' },
    { bits: 12 },
    { bits: 0 },
    { bits: 264 },
    { normaliser: { ...email, version: 256 } },
    { earlier: [email] },
    { earlier: [{ ...email, version: 2 }] },
  ])('is not declared with %j', (wrong) => {
    expect(() => blindIndex({ ...index, ...wrong })).toThrow(TypeError);
  });

  it('is not declared for a country that is no calling code', () => {
    expect(() => phone('0')).toThrow(TypeError);
    expect(() => phone('+49')).toThrow(TypeError);
  });
});
