/* oxlint-disable unicorn/no-thenable -- `then` is a keyword of JSON Schema */
import { describe, expect, it, test } from 'vitest';
import { createAjv } from '../../../cli/generate/compile-schemas.ts';
import {
  sealData,
  sealingPlan,
  type Sensitive,
  SealingSchemaError,
  wireSchema,
} from '../../../shared/sealing/index.ts';
import { EVENT, testKey } from '../../support/sealing.ts';

const declared: Sensitive = { class: 'contact', subject: { kind: 'customer', id: '/customerId' } };
const marked = { type: 'string', 'x-gdpr-sensitive': true } as const;
const key = testKey('one');

/** A closed object with a customer's id and these fields. */
function schemaOf(properties: object, more: object = {}): Record<string, unknown> {
  return {
    type: 'object',
    additionalProperties: false,
    required: ['customerId'],
    properties: { customerId: { type: 'string' }, ...properties },
    ...more,
  };
}

/** Seals data by a schema, checks both ends against their schemas, and answers with the places that were sealed. */
function sealedPlaces(schema: Record<string, unknown>, fields: object): string[] {
  const data = { customerId: 'K-1', ...fields };
  const ajv = createAjv({ allErrors: false });
  expect(ajv.validate(schema, data), JSON.stringify(ajv.errors)).toBe(true);
  const plan = sealingPlan(schema, declared)!;
  const wire = sealData(data, plan, () => key, EVENT);
  expect(ajv.validate(wireSchema(plan), wire), JSON.stringify([ajv.errors, wireSchema(plan)])).toBe(true);
  const places: string[] = [];
  const look = (value: unknown, pointer: string): void => {
    if (typeof value === 'string' && value.startsWith('sealed.1.')) places.push(pointer);
    if (typeof value !== 'object' || value === null) return;
    for (const [name, child] of Object.entries(value)) look(child, `${pointer}/${name}`);
  };
  look(wire, '');
  // What is clear where it must be sealed, does not pass the wire schema.
  if (places.length > 0) expect(ajv.validate(wireSchema(plan), data)).toBe(false);
  return places;
}

describe('what is marked is sealed, wherever a schema can say so', () => {
  it('case 43: in properties, nested and plain', () => {
    const address = {
      type: 'object',
      additionalProperties: false,
      properties: { street: marked, city: { type: 'string' } },
    };
    expect(
      sealedPlaces(schemaOf({ name: marked, address }), { name: 'Ada', address: { street: 'S', city: 'C' } }),
    ).toEqual(['/name', '/address/street']);
  });

  it('case 43: behind a reference, and beside one', () => {
    const schema = schemaOf(
      {
        name: { $ref: '#/$defs/marked' },
        note: { $ref: '#/$defs/text', 'x-gdpr-sensitive': true },
        city: { $ref: '#/$defs/text' },
      },
      { $defs: { marked, text: { type: 'string', maxLength: 9 } } },
    );
    expect(sealedPlaces(schema, { name: 'Ada', note: 'N', city: 'C' })).toEqual(['/name', '/note']);
  });

  it('case 43: in allOf, once', () => {
    const schema = {
      type: 'object',
      unevaluatedProperties: false,
      allOf: [
        { type: 'object', required: ['customerId'], properties: { customerId: { type: 'string' }, name: marked } },
        { type: 'object', properties: { name: { minLength: 1, ...marked }, city: { type: 'string' } } },
      ],
    };
    expect(sealedPlaces(schema, { name: 'Ada', city: 'C' })).toEqual(['/name']);
  });

  it('case 43: marked in one branch of oneOf, sealed in the other too', () => {
    const branch = (properties: object): object => ({
      type: 'object',
      additionalProperties: false,
      required: ['customerId', ...Object.keys(properties)],
      properties: { customerId: { type: 'string' }, ...properties },
    });
    const schema = {
      type: 'object',
      oneOf: [
        branch({ kind: { const: 'person' }, tax: marked }),
        branch({ kind: { const: 'company' }, tax: { type: 'integer' } }),
      ],
    };
    expect(sealedPlaces(schema, { kind: 'person', tax: 'T' })).toEqual(['/tax']);
    expect(sealedPlaces(schema, { kind: 'company', tax: 17 })).toEqual(['/tax']);
  });

  it('like case 43: branches that only a reader can tell apart', () => {
    const schema = schemaOf({ tax: { oneOf: [marked, { type: 'integer' }] } });
    expect(sealedPlaces(schema, { tax: 'T' })).toEqual(['/tax']);
    const other = (tax: object): object => ({ type: 'object', properties: { tax } });
    const whole = schemaOf({ tax: {} }, { oneOf: [other(marked), other({ type: 'integer' })] });
    expect(sealedPlaces(whole, { tax: 17 })).toEqual(['/tax']);
  });

  it('case 43: in anyOf beside null, which stays clear', () => {
    const schema = schemaOf({
      name: { anyOf: [marked, { type: 'null' }] },
      mail: { type: ['string', 'null'], 'x-gdpr-sensitive': true },
    });
    expect(sealedPlaces(schema, { name: 'Ada', mail: 'a@b' })).toEqual(['/name', '/mail']);
    expect(sealedPlaces(schema, { name: null, mail: null })).toEqual([]);
    expect(sealedPlaces(schema, {})).toEqual([]);
  });

  it('like case 43: where null is not allowed, it does not pass the wire either', () => {
    const plan = sealingPlan(schemaOf({ name: marked }), declared)!;
    const ajv = createAjv({ allErrors: false });
    expect(ajv.validate(wireSchema(plan), { customerId: 'K', name: null })).toBe(false);
  });

  it('case 43: in arrays, tuples, and items beyond a tuple', () => {
    const schema = schemaOf({
      lines: {
        type: 'array',
        items: { type: 'object', additionalProperties: false, properties: { note: marked, n: { type: 'integer' } } },
      },
      names: { type: 'array', items: marked },
      pair: { type: 'array', minItems: 2, items: false, prefixItems: [{ type: 'integer' }, marked] },
    });
    const fields = { lines: [{ n: 1 }, { note: 'N', n: 2 }], names: ['a', 'b'], pair: [1, 'x'] };
    expect(sealedPlaces(schema, fields)).toEqual(['/lines/1/note', '/names/0', '/names/1', '/pair/1']);
  });

  it('case 43: in additionalProperties and patternProperties', () => {
    const schema = schemaOf({
      rest: { type: 'object', properties: { open: { type: 'string' } }, additionalProperties: marked },
      some: {
        type: 'object',
        additionalProperties: { type: 'string' },
        patternProperties: { '^p-': marked, '^n-': { type: 'integer' } },
      },
    });
    const fields = { rest: { open: 'o', any: 'a', __proto__x: 'b' }, some: { 'p-1': 'x', 'n-1': 2, other: 'y' } };
    expect(sealedPlaces(schema, fields)).toEqual(['/rest/any', '/rest/__proto__x', '/some/p-1']);
  });

  it('like case 43: a name that one schema marks falls under additionalProperties of another', () => {
    const schema = {
      type: 'object',
      allOf: [
        {
          type: 'object',
          required: ['customerId'],
          properties: { customerId: { type: 'string' } },
          additionalProperties: { type: 'string', maxLength: 5 },
        },
        { type: 'object', properties: { name: marked } },
      ],
    };
    expect(sealedPlaces(schema, { name: 'Ada', other: 'o' })).toEqual(['/name']);
  });

  it('case 43: in then and else', () => {
    const schema = schemaOf(
      { kind: { type: 'string' }, tax: {} },
      {
        if: { type: 'object', properties: { kind: { const: 'person' } } },
        then: { type: 'object', properties: { tax: marked } },
        else: { type: 'object', properties: { tax: { type: 'integer' } } },
      },
    );
    expect(sealedPlaces(schema, { kind: 'person', tax: 'T' })).toEqual(['/tax']);
    expect(sealedPlaces(schema, { kind: 'company', tax: 1 })).toEqual(['/tax']);
  });

  it('case 43: in a recursive schema, however deep', () => {
    const schema = schemaOf(
      { tree: { $ref: '#/$defs/node' } },
      {
        $defs: {
          node: {
            type: 'object',
            additionalProperties: false,
            properties: { name: marked, kids: { type: 'array', items: { $ref: '#/$defs/node' } } },
          },
        },
      },
    );
    let tree: object = { name: 'leaf' };
    for (let depth = 0; depth < 40; depth += 1) tree = { kids: [tree], name: 'x' };
    expect(sealedPlaces(schema, { tree })).toHaveLength(41);
  });

  it('case 43: under dependentSchemas', () => {
    const schema = schemaOf(
      { mail: { type: 'string' }, on: { type: 'boolean' } },
      { dependentSchemas: { on: { type: 'object', properties: { mail: marked } } } },
    );
    expect(sealedPlaces(schema, { mail: 'm' })).toEqual(['/mail']);
  });

  it('whole objects and arrays, as one value', () => {
    const schema = schemaOf({
      address: { type: 'object', 'x-gdpr-sensitive': true },
      tags: { type: 'array', items: { type: 'string' }, 'x-gdpr-sensitive': true },
    });
    expect(sealedPlaces(schema, { address: { a: { b: 1 } }, tags: [] })).toEqual(['/address', '/tags']);
  });

  it('fields whose names mean something to JavaScript or to JSON Pointer', () => {
    const names = ['constructor', 'a/b', 'a~b', '', 'x-gdpr-sensitive', 'toString'];
    const schema = schemaOf(JSON.parse(JSON.stringify(Object.fromEntries(names.map((name) => [name, marked])))));
    const fields = Object.fromEntries(names.map((name) => [name, 'v'])) as object;
    const data = JSON.parse(JSON.stringify(fields)) as object;
    expect(sealedPlaces(schema, data).toSorted()).toEqual(names.map((name) => `/${name}`).toSorted());
    // ajv takes this one only where no name is given.
    const any = schemaOf({ any: { type: 'object', additionalProperties: marked } });
    expect(sealedPlaces(any, { any: JSON.parse('{"__proto__":"v"}') as object })).toEqual(['/any/__proto__']);
  });

  it('a schema without marks has no plan', () => {
    expect(sealingPlan(schemaOf({ name: { type: 'string', 'x-gdpr-sensitive': false } }), declared)).toBeNull();
    expect(sealingPlan({ $ref: 'https://elsewhere' })).toBeNull();
    expect(sealingPlan(schemaOf({ 'x-gdpr-sensitive': { type: 'boolean' } }), declared)).toBeNull();
  });
});

describe('marks that cannot be kept are refused when the catalogue is defined', () => {
  const refused: [string, string, Record<string, unknown>, string][] = [
    ['a value that means nothing', 'SEALING_MARK_INVALID', schemaOf({ a: { 'x-gdpr-sensitive': 'yes' } }), '#/properties/a'],
    ['an unknown key', 'SEALING_MARK_INVALID', schemaOf({ a: { 'x-gdpr-sensitive': { klass: 'x' } } }), '#/properties/a'],
    ['a class that breaks the grammar', 'SEALING_MARK_INVALID', schemaOf({ a: { 'x-gdpr-sensitive': { class: 'Tax' } } }), '#/properties/a'],
    ['a subject that is no pointer', 'SEALING_MARK_INVALID', schemaOf({ a: { 'x-gdpr-sensitive': { subject: 'id' } } }), '#/properties/a'],
    ['an erasedValue that JSON has not', 'SEALING_MARK_INVALID', schemaOf({ a: { 'x-gdpr-sensitive': { erasedValue: Number.NaN } } }), '#/properties/a'],
    ['the data as a whole', 'SEALING_MARK_PLACE', schemaOf({}, { 'x-gdpr-sensitive': true }), '#'],
    ['a mark under not', 'SEALING_MARK_PLACE', schemaOf({ a: { not: marked } }), '#/properties/a/not'],
    ['a mark under if', 'SEALING_MARK_PLACE', schemaOf({ a: {} }, { if: { properties: { a: marked } } }), '#/if'],
    ['a mark under contains', 'SEALING_MARK_PLACE', schemaOf({ a: { type: 'array', contains: marked } }), '#/properties/a/contains'],
    ['a mark behind a reference under not', 'SEALING_MARK_PLACE', schemaOf({ a: { not: { $ref: '#/$defs/m' } } }, { $defs: { m: marked } }), '#/properties/a/not'],
    ['a mark in unevaluatedProperties', 'SEALING_MARK_PLACE', { type: 'object', unevaluatedProperties: marked }, '#/unevaluatedProperties'],
    ['two classes for one place', 'SEALING_MARK_CONFLICT', schemaOf({ a: { allOf: [marked, { 'x-gdpr-sensitive': { class: 'tax' } }] } }), '#/properties/a/allOf/1'],
    ['a mark inside a sealed value', 'SEALING_MARK_NESTED', schemaOf({ a: { ...marked, type: 'object', properties: { b: marked } } }), '#/properties/a/properties/b'],
    ['a condition on a sealed value', 'SEALING_CONDITION', schemaOf({ a: marked }, { if: { properties: { a: { const: 'x' } } }, then: {} }), '#/if/properties/a/const'],
    ['its negation', 'SEALING_CONDITION', schemaOf({ a: marked }, { not: { properties: { a: { pattern: 'x' } } } }), '#/not/properties/a/pattern'],
    ['a condition behind a reference', 'SEALING_CONDITION', schemaOf({ a: marked }, { if: { $ref: '#/$defs/c' }, $defs: { c: { properties: { a: { enum: ['x'] } } } } }), '#/$defs/c/properties/a/enum'],
    ['a condition on any field', 'SEALING_CONDITION', schemaOf({ a: marked }, { if: { additionalProperties: { type: 'string' } } }), '#/if/additionalProperties/type'],
    ['a condition on an item', 'SEALING_CONDITION', schemaOf({ a: { type: 'array', items: marked, contains: { const: 'x' } } }), '#/properties/a/contains/const'],
    ['a constant that holds sealed values', 'SEALING_CONDITION', schemaOf({ a: { type: 'object', additionalProperties: false, properties: { b: marked }, enum: [{ b: 'x' }] } }), '#/properties/a/enum'],
    ['an open object', 'SEALING_SCHEMA_OPEN', { ...schemaOf({ a: marked }), additionalProperties: true }, '#'],
    ['an open object below', 'SEALING_SCHEMA_OPEN', schemaOf({ a: { type: 'object', properties: { b: marked } } }), '#/properties/a'],
    ['an object that is closed in one branch only', 'SEALING_SCHEMA_OPEN', schemaOf({ a: { type: 'object', anyOf: [{ properties: { b: marked }, additionalProperties: false }, { required: ['c'] }] } }), '#/properties/a'],
    ['an open tuple', 'SEALING_SCHEMA_OPEN', schemaOf({ a: { type: 'array', prefixItems: [marked] } }), '#/properties/a'],
    ['no type, so that objects pass', 'SEALING_SCHEMA_OPEN', schemaOf({ a: { items: marked } }), '#/properties/a'],
    ['a subject that is not required', 'SEALING_SUBJECT', { ...schemaOf({ a: marked }), required: [] }, '#/properties/a'],
    ['a subject that is nowhere', 'SEALING_SUBJECT', schemaOf({ a: { 'x-gdpr-sensitive': { subject: { kind: 'c', id: '/who' } } } }), '#/properties/a'],
    ['a subject that is sealed', 'SEALING_SUBJECT', schemaOf({ b: marked, a: { 'x-gdpr-sensitive': { subject: { kind: 'c', id: '/b' } } } }, { required: ['customerId', 'b'] }), '#/properties/a'],
    ['a subject inside another sealed value', 'SEALING_SUBJECT', schemaOf({ b: { type: 'object', required: ['id'], properties: { id: { type: 'string' } }, 'x-gdpr-sensitive': true }, a: { 'x-gdpr-sensitive': { subject: { kind: 'c', id: '/b/id' } } } }, { required: ['customerId', 'b'] }), '#/properties/a'],
    ['a subject inside the value', 'SEALING_SUBJECT', schemaOf({ a: { type: 'object', required: ['id'], properties: { id: { type: 'string' } }, 'x-gdpr-sensitive': { subject: { kind: 'c', id: '0/id' } } } }), '#/properties/a'],
    ['a subject above the data', 'SEALING_SUBJECT', schemaOf({ a: { 'x-gdpr-sensitive': { subject: { kind: 'c', id: '3/id' } } } }), '#/properties/a'],
    ['a subject that is a number', 'SEALING_SUBJECT', { ...schemaOf({ a: marked }), properties: { a: marked, customerId: { type: 'integer' } } }, '#/properties/a'],
    ['a reference to elsewhere', 'SEALING_REFERENCE', schemaOf({ a: marked, b: { $ref: 'https://example.com/b' } }), '#/properties/b'],
    ['a reference by anchor', 'SEALING_REFERENCE', schemaOf({ a: marked, b: { $ref: '#anchor' } }), '#/properties/b'],
    ['a dynamic reference', 'SEALING_REFERENCE', schemaOf({ a: marked, b: { $dynamicRef: '#b' } }), '#/properties/b'],
    ['a reference to nothing', 'SEALING_REFERENCE', schemaOf({ a: marked, b: { $ref: '#/$defs/b' } }), '#/properties/b'],
    ['a pattern of letters of any script', 'SEALING_PATTERN', schemaOf({ a: { type: 'object', additionalProperties: false, patternProperties: { '^\\w+$': marked } } }), '#/properties/a'],
    ['a pattern that looks ahead', 'SEALING_PATTERN', schemaOf({ a: { type: 'object', additionalProperties: false, patternProperties: { '^(?!x)': marked } } }), '#/properties/a'],
  ]; // oxfmt-ignore

  test.each(refused)('%s: %s', (_, code, schema, place) => {
    expect(() => sealingPlan(schema, declared)).toThrow(expect.objectContaining({ code, schemaPath: place }));
    expect(() => sealingPlan(schema, declared)).toThrow(SealingSchemaError);
  });

  it('patterns that overlap and differ, when the wire schema is derived', () => {
    const overlapping = {
      type: 'object',
      additionalProperties: false,
      patternProperties: { a$: marked, '^b': { type: 'integer' } },
    };
    const plan = sealingPlan(schemaOf({ a: overlapping }), declared)!;
    expect(() => wireSchema(plan)).toThrow(expect.objectContaining({ code: 'SEALING_PATTERN' }));
  });

  it('a mark without class or subject, where the type declares none', () => {
    expect(() => sealingPlan(schemaOf({ a: marked }))).toThrow(
      expect.objectContaining({ code: 'SEALING_MARK_INVALID' }),
    );
  });

  it('conditions that only ask whether a sealed field is there are fine', () => {
    const schema = schemaOf(
      { a: marked, b: { type: 'integer' } },
      { if: { required: ['a'] }, then: { required: ['b'] }, dependentRequired: { b: ['a'] } },
    );
    expect(sealingPlan(schema, declared)).not.toBeNull();
  });
});
