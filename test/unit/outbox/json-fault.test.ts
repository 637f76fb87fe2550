import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { jsonFault } from '../../../shared/outbox/json-fault.ts';
import { anyText } from '../../support/any-text.ts';

class Money {
  readonly amount = 1;
}

const circular: Record<string, unknown> = {};
circular['again'] = circular;

const named = Object.assign([1], { name: 'x' });
const holes = Array.from<number>({ length: 0 });
holes[1] = 2;

describe('jsonFault', () => {
  it.each<[string, unknown, string, RegExp]>([
    ['undefined', { a: undefined }, '.a', /is undefined/],
    ['undefined as a whole', undefined, '', /is undefined/],
    ['a hole in an array', { a: holes }, '.a[0]', /is undefined/],
    ['NaN', [Number.NaN], '[0]', /finite/],
    ['Infinity', { a: { b: Infinity } }, '.a.b', /finite/],
    ['a whole number beyond 2^53', { a: 2 ** 53 }, '.a', /2\^53/],
    ['the same below zero', { a: -(2 ** 53) }, '.a', /2\^53/],
    ['1e300', { a: 1e300 }, '.a', /2\^53/],
    ['a bigint', { a: 1n }, '.a', /bigint/],
    ['a function', { a: () => 1 }, '.a', /function/],
    ['a symbol', { a: Symbol('x') }, '.a', /symbol/],
    ['a symbol as a key', { a: { [Symbol('x')]: 1 } }, '.a', /symbol/],
    ['a Date', { a: new Date() }, '.a', /class/],
    ['a Map', { a: new Map() }, '.a', /class/],
    ['a Buffer', { a: Buffer.from('x') }, '.a', /class/],
    ['a boxed number', { a: Object(1) }, '.a', /class/],
    ['an instance', { a: new Money() }, '.a', /class/],
    ['an array with a name', { a: named }, '.a', /named properties/],
    ['U+0000', { a: 'x\u0000y' }, '.a', /U\+0000/],
    ['a lone high surrogate', { a: 'x\uD83D' }, '.a', /surrogate/],
    ['a lone low surrogate', { a: '\uDE00x' }, '.a', /surrogate/],
    ['U+0000 in a key', { 'a\u0000': 1 }, '["a\\u0000"]', /key/],
    ['a lone surrogate in a key', { '\uD83D': 1 }, '["\\ud83d"]', /key/],
    ['a circle', circular, '.again'.repeat(100), /deeper than 100/],
  ])('finds %s', (_, value, path, reason) => {
    expect(jsonFault(value)).toEqual({ path, reason: expect.stringMatching(reason) as string });
  });

  it.each<[string, unknown]>([
    ['null', null],
    ['the largest exact whole number', Number.MAX_SAFE_INTEGER],
    ['a small fraction', 1e-300],
    ['an object without a prototype', Object.assign(Object.create(null) as object, { a: 1 })],
    ['a key named __proto__', JSON.parse('{"__proto__": {"a": 1}}')],
    ['noncharacters', '\uFFFE\uFFFF\u{1FFFE}'],
  ])('lets %s through', (_, value) => {
    expect(jsonFault(value)).toBeNull();
  });

  it('lets through exactly what comes back from JSON as it was', () => {
    const values = fc.anything({
      values: [anyText, fc.double(), fc.integer(), fc.boolean(), fc.constant(null), fc.constant(undefined)],
      key: anyText,
      withBigInt: true,
      withDate: true,
      withMap: true,
      withNullPrototype: true,
      withSparseArray: true,
      withTypedArray: true,
      withBoxedValues: true,
    });
    fc.assert(
      fc.property(values, (value) => {
        if (jsonFault(value) === null) {
          // -0 and 0 are one number in JSON.
          expect(JSON.parse(JSON.stringify(value))).toEqual(normalised(value));
        }
      }),
      { numRuns: 500 },
    );
  });

  it('lets every value of JSON through that PostgreSQL can store', () => {
    const storable = fc
      .jsonValue({ stringUnit: 'grapheme' })
      .filter(
        (value) =>
          !JSON.stringify(value).includes('\\u0000') && everyNumber(value, (number) => Math.abs(number) < 2 ** 53),
      );
    fc.assert(
      fc.property(storable, (value) => {
        expect(jsonFault(value)).toBeNull();
      }),
    );
  });
});

function normalised(value: unknown): unknown {
  if (typeof value === 'number') return value === 0 ? 0 : value;
  if (Array.isArray(value)) return value.map(normalised);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, child]) => [key, normalised(child)]));
}

function everyNumber(value: unknown, test: (number: number) => boolean): boolean {
  if (typeof value === 'number') return test(value);
  if (typeof value !== 'object' || value === null) return true;
  return Object.values(value).every((child) => everyNumber(child, test));
}
