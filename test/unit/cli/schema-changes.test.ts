import { Ajv2020 } from 'ajv/dist/2020.js';
import fc, { type GeneratorValue } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalSchema, canonicalText } from '../../../cli/released/canonical-schema.ts';
import { type SchemaChange, schemaChanges } from '../../../cli/released/schema-changes.ts';
import { anyObjectSchema, editedSchema, type TestSchema, valueFor } from '../../support/any-schema.ts';

const changesOf = (was: unknown, is: unknown): SchemaChange[] =>
  schemaChanges(canonicalSchema(was), canonicalSchema(is));
/** `pointer: text` of each change; a compatible one in brackets. */
const sentences = (was: unknown, is: unknown): string[] =>
  changesOf(was, is).map(({ pointer, breaking, text }) => (breaking ? `${pointer}: ${text}` : `(${pointer}: ${text})`));

const closed = { type: 'object', additionalProperties: false, required: ['a'], properties: { a: { type: 'integer' } } };
/** The closed object with one field of this schema. */
const field = (a: unknown): object => ({ ...closed, properties: { a } });

const STORED = 'events that are stored would no longer be valid';
const READERS = 'readers would meet what this version promised they never would';
const UNSHOWN = 'this cannot be shown to be compatible';

describe('changes within a version that are compatible', () => {
  it.each<[string, unknown, unknown]>([
    ['other words', { ...closed, title: 'A' }, { ...closed, description: 'B', $comment: 'C', examples: [{ a: 1 }] }],
    ['another order of keys and fields', closed, Object.fromEntries(Object.entries(closed).toReversed())],
    ['a keyword that is left undefined', closed, { ...closed, maxProperties: undefined }],
    ['another order of values', field({ enum: ['x', 'y'] }), field({ enum: ['y', 'x'] })],
    ['a constant as a list of one', field({ const: 'x' }), field({ enum: ['x'] })],
    ['a type as a list of one', field({ type: 'string' }), field({ type: ['string'] })],
  ])('%s is no change', (_, was, is) => {
    expect(changesOf(was, is)).toEqual([]);
  });

  it.each<[string, unknown, unknown, string[]]>([
    [
      'an optional field in a closed object',
      closed,
      { ...closed, properties: { ...closed.properties, b: { type: 'string' } } },
      ['(/properties/b: an optional field was added)'],
    ],
    [
      'one in a list of objects',
      field({ type: 'array', items: closed }),
      field({ type: 'array', items: { ...closed, properties: { ...closed.properties, 'b/c': true } } }),
      ['(/properties/a/items/properties/b~1c: an optional field was added)'],
    ],
    [
      'a name for what an open object could hold anyway',
      { type: 'object' },
      { type: 'object', properties: { b: { description: 'anything' } } },
      ['(/properties/b: an optional field was added)'],
    ],
    [
      'a closed object that is opened',
      closed,
      { ...closed, additionalProperties: true },
      ['(/additionalProperties: the object was closed and may hold more now)'],
    ],
  ])('%s', (_, was, is, expected) => {
    expect(sentences(was, is)).toEqual(expected);
  });
});

describe('changes within a version that are breaking', () => {
  it.each<[string, unknown, unknown, string[]]>([
    [
      'a required field',
      closed,
      { ...closed, required: ['a', 'b'], properties: { ...closed.properties, b: { type: 'string' } } },
      [`/required: "b" is required now: ${STORED}`],
    ],
    [
      'a field that need not be there',
      closed,
      { ...closed, required: [] },
      [`/required: "a" is no longer required: ${READERS}`],
    ],
    [
      'a field that is gone',
      { ...closed, required: [] },
      { ...closed, required: [], properties: {} },
      ['/properties/a: the field was removed: stored events hold it, and readers may rely on it'],
    ],
    [
      'a field in an open object',
      { type: 'object' },
      { type: 'object', properties: { b: { type: 'string' } } },
      [
        `/properties/b: a field was added to an open object (no "additionalProperties": false): a stored event may hold anything under this name, and ${STORED}`,
      ],
    ],
    [
      'a narrower type',
      field({ type: 'number' }),
      field({ type: 'integer' }),
      [`/properties/a/type: type "number" is no longer accepted: ${STORED}`],
    ],
    [
      'a wider type',
      field({ type: 'integer' }),
      field({ type: 'number' }),
      [`/properties/a/type: type "number" is accepted now: ${READERS}`],
    ],
    [
      'another list of values',
      field({ enum: ['x', 'y'] }),
      field({ enum: ['y', 'z'] }),
      [
        `/properties/a/enum: value "x" is no longer accepted: ${STORED}`,
        `/properties/a/enum: value "z" is accepted now: ${READERS}`,
      ],
    ],
    [
      'a list of values',
      field({ type: 'string' }),
      field({ type: 'string', enum: ['x'] }),
      [`/properties/a/enum: was added: ${STORED}`],
    ],
    [
      'a lower maximum',
      field({ maximum: 9 }),
      field({ maximum: 8 }),
      [`/properties/a/maximum: changed from 9 to 8: ${STORED}`],
    ],
    [
      'a higher maximum',
      field({ maximum: 8 }),
      field({ maximum: 9 }),
      [`/properties/a/maximum: changed from 8 to 9: ${READERS}`],
    ],
    [
      'a higher minimum',
      field({ minLength: 1 }),
      field({ minLength: 2 }),
      [`/properties/a/minLength: changed from 1 to 2: ${STORED}`],
    ],
    [
      'a bound that is new',
      field({ type: 'string' }),
      field({ type: 'string', maxLength: 3 }),
      [`/properties/a/maxLength: was added as 3: ${STORED}`],
    ],
    [
      'a bound that is gone',
      field({ maxItems: 3, type: 'array' }),
      field({ type: 'array' }),
      [`/properties/a/maxItems: was removed (it was 3): ${READERS}`],
    ],
    [
      'a format',
      field({ type: 'string' }),
      field({ type: 'string', format: 'date' }),
      [`/properties/a/format: was added as "date": ${STORED}`],
    ],
    [
      'another pattern',
      field({ pattern: '^a' }),
      field({ pattern: '^b' }),
      [`/properties/a/pattern: changed from "^a" to "^b": ${UNSHOWN}`],
    ],
    [
      'an object that is closed',
      { type: 'object' },
      { type: 'object', additionalProperties: false },
      [`/additionalProperties: changed from true to false: ${STORED}`],
    ],
    [
      'any value where only some were allowed',
      { type: 'object', additionalProperties: { type: 'integer' } },
      { type: 'object', additionalProperties: { type: 'integer' }, properties: { b: true } },
      [expect.stringContaining('/properties/b: a field was added to an open object') as string],
    ],
    [
      'a constant that is null',
      field({ enum: [null, 1] }),
      field({ enum: [null, 1], const: null }),
      [`/properties/a/const: was added as null: ${UNSHOWN}`],
    ],
    [
      'a condition',
      { type: 'object', not: { required: ['b'] } },
      { type: 'object', not: { required: ['c'] } },
      [`/not: changed from {"required":["b"]} to {"required":["c"]}: ${UNSHOWN}`],
    ],
    [
      'a mark of personal data',
      field({ type: 'string' }),
      field({ type: 'string', 'x-gdpr-sensitive': true }),
      [`/properties/a/x-gdpr-sensitive: was added as true: ${UNSHOWN}`],
    ],
    [
      'one alternative more',
      field({ anyOf: [true] }),
      field({ anyOf: [true, false] }),
      [`/properties/a/anyOf: holds other schemas now: ${UNSHOWN}`],
    ],
    [
      'a field beside patterns',
      { ...closed, patternProperties: { '^b': { type: 'string' } } },
      {
        ...closed,
        patternProperties: { '^b': { type: 'string' } },
        properties: { ...closed.properties, b: { type: 'integer' } },
      },
      [`/properties/b: a field was added beside patternProperties: ${UNSHOWN}`],
    ],
  ])('%s', (_, was, is, expected) => {
    expect(sentences(was, is)).toEqual(expected);
  });
});

describe('references', () => {
  const withDefinition = (amount: unknown, more: object = {}): object => ({
    ...field({ $ref: '#/$defs/amount' }),
    $defs: { amount },
    ...more,
  });
  const wider = { ...closed, properties: { ...closed.properties, b: { type: 'string' } } };

  it('are followed into the definitions', () => {
    expect(sentences(withDefinition(closed), withDefinition(wider))).toEqual([
      '(/$defs/amount/properties/b: an optional field was added)',
    ]);
    expect(sentences(withDefinition({ maximum: 9 }), withDefinition({ maximum: 8 }))).toEqual([
      `/$defs/amount/maximum: changed from 9 to 8: ${STORED}`,
    ]);
  });

  it.each([
    ['not', { not: { $ref: '#/$defs/amount' } }],
    ['if', { if: { properties: { a: { $ref: '#/$defs/amount' } } } }],
    ['oneOf', { oneOf: [{ $ref: '#/$defs/amount' }, true] }],
  ])('below %s make every change one that cannot be shown: there more can mean less', (_, more) => {
    expect(sentences(withDefinition(closed, more), withDefinition(wider, more))).toEqual([
      `: the schema changed and holds $ref beside conditions: ${UNSHOWN}`,
    ]);
  });

  it('and fields that are counted as known from afar likewise', () => {
    const far = { type: 'object', unevaluatedProperties: false };
    expect(sentences(far, { ...far, properties: { a: true } })).toEqual([
      `: the schema changed and holds unevaluatedProperties: ${UNSHOWN}`,
    ]);
  });
});

describe('the canonical form', () => {
  it('does not take fields for annotations, nor a value for a schema', () => {
    const schema = { type: 'object', properties: { title: { type: 'string' }, description: { enum: [{ title: 1 }] } } };
    expect(canonicalText(canonicalSchema(schema))).toBe(
      '{"properties":{"description":{"enum":[{"title":1}]},"title":{"type":"string"}},"type":"object"}',
    );
  });

  it('keeps a field called __proto__', () => {
    const schema = JSON.parse('{"properties":{"__proto__":{"type":"string"}}}') as object;
    expect(canonicalText(canonicalSchema(schema))).toBe('{"properties":{"__proto__":{"type":"string"}}}');
  });

  it('accepts the same values', () => {
    const ajv = new Ajv2020({ strict: false });
    fc.assert(
      fc.property(fc.gen(), (g) => {
        const schema = anyObjectSchema(g, 2);
        const value = valueFor(g, schema);
        expect(ajv.validate(canonicalSchema(schema) as object, value)).toBe(ajv.validate(schema, value));
      }),
    );
  });
});

/** Shrinking two schemas at once takes minutes; the first counterexample is small enough to read. */
const RUNS = { numRuns: 300, endOnFailure: true };

describe('whatever is called compatible', () => {
  const ajv = new Ajv2020({ strict: false });
  const pairOf = (g: GeneratorValue): [TestSchema, TestSchema] | null => {
    const was = anyObjectSchema(g, 2);
    const is = editedSchema(g, was);
    return changesOf(was, is).some(({ breaking }) => breaking) ? null : [was, is];
  };
  /** Values of `source` that it accepts. */
  const valuesOf = (g: GeneratorValue, source: TestSchema): unknown[] => {
    const accepts = ajv.compile(source);
    return Array.from({ length: 10 }, () => valueFor(g, source)).filter((value) => accepts(value));
  };

  it('accepts every value that was accepted before', () => {
    fc.assert(
      fc.property(fc.gen(), (g) => {
        const pair = pairOf(g);
        if (pair === null) return;
        const accepts = ajv.compile(pair[1]);
        for (const value of valuesOf(g, pair[0]))
          if (!accepts(value)) expect.unreachable(JSON.stringify([value, ...pair]));
      }),
      RUNS,
    );
  });

  it('gives readers of before nothing else than before, but for fields that they do not know', () => {
    fc.assert(
      fc.property(fc.gen(), (g) => {
        const pair = pairOf(g);
        if (pair === null) return;
        for (const value of valuesOf(g, pair[1])) {
          const known = knownPart(ajv, pair[0], value);
          if (!ajv.validate(pair[0], known)) expect.unreachable(JSON.stringify([value, ...pair]));
        }
      }),
      RUNS,
    );
  });
});

/** The value without the fields that closed objects of the schema do not name. */
function knownPart(ajv: Ajv2020, schema: unknown, value: unknown): unknown {
  const { properties, additionalProperties, items, anyOf } = (typeof schema === 'object' ? schema : {}) as TestSchema;
  if (anyOf !== undefined) {
    const parts = (anyOf as object[]).map((branch) => [branch, knownPart(ajv, branch, value)] as const);
    return parts.find(([branch, part]) => ajv.validate(branch, part))?.[1] ?? value;
  }
  if (Array.isArray(value)) return value.map((item) => knownPart(ajv, items, item));
  if (typeof value !== 'object' || value === null) return value;
  const fields = (properties ?? {}) as Record<string, unknown>;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => additionalProperties !== false || Object.hasOwn(fields, name))
      .map(([name, child]) => [name, Object.hasOwn(fields, name) ? knownPart(ajv, fields[name], child) : child]),
  );
}
