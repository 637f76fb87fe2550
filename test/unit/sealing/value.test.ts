import fc from 'fast-check';
import { describe, expect, it, test } from 'vitest';
import { inspect } from 'node:util';
import { randomBytes } from 'node:crypto';
import { associatedData } from '../../../shared/sealing/associated-data.ts';
import { encrypt, saltsForNow } from '../../../shared/sealing/cipher.ts';
import { formatSealed, isCanonical } from '../../../shared/sealing/sealed-text.ts';
import { openValue, parseSealed, reseal, SealingError, sealValue } from '../../../shared/sealing/index.ts';
import { anyText } from '../../support/any-text.ts';
import { runMutations } from '../../support/sealing-mutations.ts';
import { codeOf, EVENT, ROW, testKey } from '../../support/sealing.ts';

const key = testKey('one');
const open = (text: string): unknown => openValue(text, key, EVENT);

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

describe('a value comes back as it was', () => {
  test.each([
    '', ' ', '123', 'true', 'null', '1e20', 'sealed', 'sealed.1.no', 0, -1.5, false, true, {}, [], '😀👩‍👩‍👧', 'İstanbul, Çağrı Şahin, ığ',
    Number.MAX_SAFE_INTEGER, 5e-324,
  ])('case 41: %j, with its type', (value) => {
    expect(open(sealValue(value, key, EVENT))).toStrictEqual(value);
  }); // oxfmt-ignore

  it('like case 41: objects with names that mean something to JavaScript', () => {
    const value = JSON.parse('{"__proto__":{"a":1},"constructor":2,"toString":"x","a/b":"~","":[]}') as unknown;
    const opened = open(sealValue(value, key, EVENT)) as object;
    expect(JSON.stringify(opened)).toBe(JSON.stringify(value));
    expect(Object.getPrototypeOf(opened)).toBe(Object.prototype);
    expect(Object.hasOwn(opened, '__proto__')).toBe(true);
  });

  it('whatever JSON it is', () => {
    const json = fc.jsonValue({ depthSize: 'medium' });
    fc.assert(
      fc.property(json, (value) => {
        fc.pre(value !== null && !JSON.stringify(value).includes('-0'));
        const text = JSON.stringify(value);
        fc.pre(!/[0-9]{16}|e\+/.test(text));
        expect(JSON.stringify(open(sealValue(value, key, EVENT)))).toBe(text);
      }),
    );
  });

  it('whatever text it is, and text that has no UTF-8 is refused', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        if (text.isWellFormed()) expect(open(sealValue(text, key, EVENT))).toBe(text);
        else expect(codeOf(() => sealValue(text, key, EVENT))).toBe('SEALING_REFUSED');
      }),
    );
  });

  it('up to 100 levels deep, and 10,000 items long', () => {
    const nested = (levels: number): unknown => JSON.parse('['.repeat(levels) + ']'.repeat(levels));
    expect(open(sealValue(nested(100), key, EVENT))).toEqual(nested(100));
    expect(codeOf(() => sealValue(nested(101), key, EVENT))).toBe('SEALING_REFUSED');
    const items = Array.from({ length: 10_000 }, (_, index) => index);
    expect(open(sealValue(items, key, EVENT))).toEqual(items);
  });

  it('up to 256 KiB of JSON', () => {
    const longest = 'x'.repeat(262_142);
    expect(open(sealValue(longest, key, EVENT))).toBe(longest);
    expect(codeOf(() => sealValue(`${longest}x`, key, EVENT))).toBe('SEALING_REFUSED');
    expect(codeOf(() => open(`${sealValue(longest, key, EVENT)}${'A'.repeat(200)}`))).toBe('SEALING_LIMIT');
  });
});

describe('what cannot come back as it is, is refused', () => {
  test.each([
    ['null, which stays clear', null],
    ['undefined', undefined],
    ['NaN', Number.NaN],
    ['infinity, deep inside', { a: [Infinity] }],
    ['an integer beyond 2^53', 2 ** 53],
    ['one far beyond', 1e300],
    ['half a surrogate pair', '\ud83d'],
    ['half a surrogate pair in a key', { '\ude00': 1 }],
    ['a date', new Date(0)],
    ['a map', { a: new Map() }],
    ['a function', { toJSON: () => 'x' }],
    ['a bigint', 1n],
    ['a hole', [undefined]],
    ['an array with a name', Object.assign([1], { name: 2 })],
    ['a symbol as a key', { [Symbol('x')]: 1 }],
  ])('%s', (_, value) => {
    expect(codeOf(() => sealValue(value, key, EVENT))).toBe('SEALING_REFUSED');
  });

  it('case 42: a value that is sealed already', () => {
    const text = sealValue('x', key, EVENT);
    expect(codeOf(() => sealValue(text, key, EVENT))).toBe('SEALING_REFUSED');
    expect(codeOf(() => sealValue('erased.1', key, EVENT))).toBe('SEALING_REFUSED');
  });

  it('says no value in its message', () => {
    for (const value of ['secret \ud83d', { secret: Number.NaN }]) {
      expect(() => sealValue(value, key, EVENT)).toThrow(
        expect.objectContaining({ message: expect.not.stringContaining('secret') }),
      );
    }
  });
});

describe('there is one way to write a sealed value', () => {
  const text = sealValue('Ada Lovelace', key, EVENT);
  const [, , className, keyId, , body = ''] = text.split('.');
  const withBody = (bytes: Buffer): string => `sealed.1.${className}.${keyId}.1.${bytes.toString('base64url')}`;
  const bytes = Buffer.from(body, 'base64url');

  it('takes at most 150 bytes for 20 characters', () => {
    expect(sealValue('x'.repeat(20), testKey('n', { class: 'sixteen-letters-' }), EVENT).length).toBeLessThanOrEqual(
      150,
    );
  });

  test.each([4, 8, 12, 15])('case 38: a tag of %i bytes is refused', (length) => {
    expect(codeOf(() => open(withBody(bytes.subarray(0, bytes.length - 16 + length))))).toBe('SEALING_MALFORMED');
  });

  test.each([
    ['padding', `${text}=`],
    ['standard base64', text.slice(0, -4) + '+/+/'],
    ['a character too many', `${text}A`],
    ['white space', `${text}\n`],
    ['a header of another format', text.replace('sealed.1.', 'sealed.2.')],
    ['a class in upper case', text.replace('contact', 'Contact')],
    ['a class of 17 characters', text.replace('contact', 'a'.repeat(17))],
    ['version 0', `sealed.1.${className}.${keyId}.0.${body}`],
    ['version 01', `sealed.1.${className}.${keyId}.01.${body}`],
    ['version 2^31', `sealed.1.${className}.${keyId}.2147483648.${body}`],
    ['a sign', `sealed.1.${className}.${keyId}.+1.${body}`],
    ['a key id with bits beyond 128', `sealed.1.${className}.${String(keyId).slice(0, -1)}B.1.${body}`],
    ['no body', `sealed.1.${className}.${keyId}.1.`],
    ['a part too many', `${text}.x`],
    ['a body without a ciphertext', withBody(bytes.subarray(0, 32))],
    ['a body cut by a byte', withBody(bytes.subarray(0, -1))],
  ])('case 38: %s is refused', (_, wrong) => {
    expect(codeOf(() => open(wrong))).toBe('SEALING_MALFORMED');
  });

  it('like case 38: characters are canonical if they are what their bytes are written as, and only then', () => {
    const written = (characters: string): boolean =>
      Buffer.from(characters, 'base64url').toString('base64url') === characters;
    for (const last of ALPHABET) {
      for (const before of ['', 'A', 'AA', 'AAA', 'AAAA', 'zZ_-9']) {
        expect(isCanonical(before + last)).toBe(written(before + last));
      }
    }
    const characters = fc.string({ unit: fc.constantFrom(...ALPHABET.split('')), maxLength: 100 });
    fc.assert(fc.property(characters, (text) => isCanonical(text) === written(text)));
  });

  it('like case 38: bits beyond the last byte, in each way they can be set', () => {
    // 80 bytes are 106.67 characters: the last one has two bits to spare.
    const long = sealValue('x'.repeat(40), key, EVENT);
    expect((Buffer.from(long.split('.')[5]!, 'base64url').length * 8) % 6).not.toBe(0);
    const last = ALPHABET.indexOf(long.at(-1)!);
    for (let bits = 1; bits < 4; bits += 1) {
      expect(codeOf(() => open(long.slice(0, -1) + ALPHABET[last + bits]))).toBe('SEALING_MALFORMED');
    }
  });

  it('knows what is not its own', () => {
    for (const other of ['', 'x', 'Sealed.1.x', 'erased.1', 'sealed']) expect(parseSealed(other)).toBeNull();
  });

  it('case 39: no byte of the body can be changed', () => {
    for (let at = 0; at < bytes.length; at += 1) {
      const changed = Buffer.from(bytes);
      changed[at]! ^= 1 << (at % 8);
      expect(codeOf(() => open(withBody(changed)))).toBe('SEALING_TAMPERED');
    }
  });

  it('case 39: no character of the header can be changed', () => {
    for (let at = 0; at < text.length - body.length; at += 1) {
      for (const character of ['x', 'A', '1', '2', '.']) {
        const changed = text.slice(0, at) + character + text.slice(at + 1);
        if (changed === text) continue;
        expect(['SEALING_MALFORMED', 'SEALING_KEY_UNKNOWN']).toContain(codeOf(() => open(changed)));
      }
    }
  });
});

describe('a value opens at its own place only', () => {
  const text = sealValue('Ada', key, EVENT);

  test.each([
    ['another field', { ...EVENT, pointer: '/customer/email' }],
    ['another item', { ...EVENT, pointer: '/customer/name/0' }],
    ['another event', { ...EVENT, eventId: '01890a5d-ac96-774b-bcce-b302099a8058' }],
    ['another type', { ...EVENT, eventType: 'invoice.paid' }],
    ['another aggregate', { ...EVENT, aggregateId: '6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e50' }],
    ['another aggregate type', { ...EVENT, aggregateType: 'order' }],
    ['a row', ROW],
  ])('case 40: not in %s', (_, context) => {
    expect(codeOf(() => openValue(text, key, context))).toBe('SEALING_TAMPERED');
  });

  test.each([
    ['table', { ...ROW, table: 'sample.order' }],
    ['store', { ...ROW, store: 'orders' }],
    ['row', { ...ROW, primaryKey: '1' }],
    ['column', { ...ROW, column: 'customer_email' }],
  ])('like case 40: sealed in a row, not in another %s', (_, context) => {
    expect(codeOf(() => openValue(sealValue('Ada', key, ROW), key, context))).toBe('SEALING_TAMPERED');
  });

  it('like case 40: fields that only together spell the same', () => {
    const sealed = sealValue('x', key, { ...ROW, table: 'ab', primaryKey: 'c' });
    expect(codeOf(() => openValue(sealed, key, { ...ROW, table: 'a', primaryKey: 'bc' }))).toBe('SEALING_TAMPERED');
  });

  it('like case 40: with the secret of another key, or a key of another name', () => {
    const other = testKey('two');
    expect(codeOf(() => openValue(text, { ...key, secret: other.secret }, EVENT))).toBe('SEALING_TAMPERED');
    expect(codeOf(() => openValue(text, other, EVENT))).toBe('SEALING_KEY_UNKNOWN');
  });

  it('UUIDs mean the same in upper and lower case', () => {
    const upper = { ...EVENT, eventId: EVENT.eventId.toUpperCase(), aggregateId: EVENT.aggregateId.toUpperCase() };
    expect(openValue(text, key, upper)).toBe('Ada');
    expect(openValue(sealValue('Ada', key, upper), key, EVENT)).toBe('Ada');
  });

  it('a place that has no UTF-8, or is no event, is refused', () => {
    expect(codeOf(() => openValue(text, key, { ...EVENT, pointer: '/\ud800' }))).toBe('SEALING_MALFORMED');
    expect(codeOf(() => openValue(text, key, { ...EVENT, eventId: 'no-uuid' }))).toBe('SEALING_MALFORMED');
  });

  it('reseal moves it, to another place, another version, or both', () => {
    const next = testKey('one', { version: 2 });
    const moved = reseal(text, { key, context: EVENT }, { key: next, context: ROW });
    expect(openValue(moved, next, ROW)).toBe('Ada');
    expect(codeOf(() => openValue(moved, next, EVENT))).toBe('SEALING_TAMPERED');
    expect(codeOf(() => reseal(text, { key, context: ROW }, { key, context: EVENT }))).toBe('SEALING_TAMPERED');
    expect(reseal('erased.1', { key, context: EVENT }, { key, context: ROW })).toBe('erased.1');
  });
});

describe('what an authentic value holds is still checked', () => {
  const sealed = (plaintext: Buffer): string =>
    formatSealed(key, encrypt(key.secret, 'sealed-outbox.value.1', plaintext, associatedData(key, EVENT), randomBytes));
  const plaintext = (type: number, json: Buffer, fill = 0, length = json.length): Buffer => {
    const bytes = Buffer.alloc(Math.max(32, Math.ceil((5 + json.length) / 16) * 16), fill);
    bytes[0] = type;
    bytes.writeUInt32BE(length, 1);
    json.copy(bytes, 5);
    return bytes;
  };

  it('a sound one opens', () => {
    expect(open(sealed(plaintext(1, Buffer.from('"x"'))))).toBe('x');
    expect(open(sealed(plaintext(5, Buffer.from(' [ 1 ] '))))).toEqual([1]);
  });

  test.each([
    ['another type', plaintext(2, Buffer.from('"x"'))],
    ['an unknown type', plaintext(9, Buffer.from('"x"'))],
    ['padding that is not zero', plaintext(1, Buffer.from('"x"'), 1)],
    ['a length beyond its end', plaintext(1, Buffer.from('"x"'), 0, 4_000_000_000)],
    ['more padding than needed', Buffer.concat([plaintext(1, Buffer.from('"x"')), Buffer.alloc(16)])],
    ['text that is not UTF-8', plaintext(1, Buffer.from([0x22, 0xc3, 0x22]))],
    ['text that is not JSON', plaintext(1, Buffer.from('x'))],
    ['a byte order mark', plaintext(1, Buffer.from('\ufeff"x"'))],
    ['null', plaintext(4, Buffer.from('null'))],
    ['half a surrogate pair', plaintext(1, Buffer.from('"\\ud800"'))],
    ['a number whose digits JavaScript would lose', plaintext(2, Buffer.from('9007199254740993'))],
    ['a number beyond all numbers', plaintext(2, Buffer.from('1e999'))],
  ])('%s is malformed', (_, bytes) => {
    expect(codeOf(() => open(sealed(bytes)))).toBe('SEALING_MALFORMED');
  });

  it('bytes are the text that a strict decoder of UTF-8 reads, or malformed where it reads none', () => {
    const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    const read = (bytes: Buffer): unknown => {
      try {
        return JSON.parse(strict.decode(bytes));
      } catch {
        return 'SEALING_MALFORMED';
      }
    };
    const tried = (bytes: Buffer): unknown => {
      const text = sealed(plaintext(1, bytes));
      try {
        return open(text);
      } catch {
        return codeOf(() => open(text));
      }
    };
    const pieces = fc.constantFrom(
      [0x41], [0xc3, 0xa9], [0xe2, 0x82, 0xac], [0xf0, 0x9f, 0x98, 0x80], [0xef, 0xbb, 0xbf], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80],
      [0xc3], [0xe2, 0x82], [0x80], [0xff], [0xef, 0xbf, 0xbd],
    ); // oxfmt-ignore
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 6 }), (parts) => {
        const bytes = Buffer.from([0x22, ...parts.flat(), 0x22]);
        expect(tried(bytes)).toBe(read(bytes));
      }),
    );
  });
});

describe('salts that are drawn together', () => {
  it('are as long as asked for, and none comes twice', () => {
    const [one, other] = [saltsForNow(), saltsForNow()];
    const salts = Array.from({ length: 100 }, () => [one(16), other(16)]).flat();
    expect(new Set(salts.map((salt) => Buffer.from(salt).toString('hex'))).size).toBe(200);
    expect(salts.every((salt) => salt.length === 16)).toBe(true);
    expect(one(1_000)).toHaveLength(1_000);
  });
});

describe('a thousand changed values', () => {
  it('none opens, and each is refused with an error of the closed set', () => {
    const { refused, unchanged } = runMutations(1, 1000);
    expect(unchanged).toBeLessThan(100);
    expect(Object.keys(refused).toSorted()).toEqual([
      'SEALING_KEY_UNKNOWN',
      'SEALING_MALFORMED',
      'SEALING_TAMPERED',
      'not sealed',
    ]);
  });

  it('a text of any length is refused with bounded work', () => {
    for (const text of [
      `sealed.1.contact.${'A'.repeat(5_000_000)}`,
      'sealed.'.repeat(1_000_000),
      'a'.repeat(5_000_000),
    ]) {
      expect(['SEALING_LIMIT', 'SEALING_MALFORMED']).toContain(codeOf(() => open(text)));
    }
  });
});

it('a key shows no byte of its secret', () => {
  const secret = key.secret.export();
  const shown = `${inspect(key, { depth: 9, showHidden: true })} ${JSON.stringify(key)}`;
  for (const encoding of ['hex', 'base64', 'base64url'] as const)
    expect(shown).not.toContain(secret.toString(encoding));
});

it('every error is a SealingError with its code', () => {
  expect(() => open('clear')).toThrow(SealingError);
});
