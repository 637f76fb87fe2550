import fc, { type GeneratorValue } from 'fast-check';

/** A JSON Schema as tests make them up: plain JSON. */
export type TestSchema = { [keyword: string]: unknown };

const NAMES = ['a', 'b', 'c'];
const small = fc.integer({ min: 0, max: 4 });
const some = <T>(g: GeneratorValue, values: readonly T[]): T => g(fc.constantFrom, ...values) as T;
const chance = (g: GeneratorValue, percent: number): boolean => g(fc.nat, 99) < percent;

/** A schema of an object, nested at most `depth` deep. */
export function anyObjectSchema(g: GeneratorValue, depth: number): TestSchema {
  const names = g(fc.subarray, NAMES);
  return {
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, anySchema(g, depth - 1)])),
    required: g(fc.subarray, names),
    ...(chance(g, 70) ? { additionalProperties: chance(g, 80) ? false : anySchema(g, 0) } : {}),
  };
}

function anySchema(g: GeneratorValue, depth: number): TestSchema {
  const kinds = ['integer', 'string', 'enum', 'any'];
  const kind = some(g, depth > 0 ? [...kinds, 'object', 'array', 'anyOf', 'oneOf', 'not'] : kinds);
  switch (kind) {
    case 'integer':
      return { type: 'integer', ...limits(g, 'minimum', 'maximum') };
    case 'string':
      return { type: 'string', ...limits(g, 'minLength', 'maxLength') };
    case 'enum':
      return { enum: g(fc.subarray, ['x', 'y', 'z', 1], { minLength: 1 }) };
    case 'object':
      return anyObjectSchema(g, depth);
    case 'array':
      return { type: 'array', items: anySchema(g, depth - 1), ...limits(g, 'minItems', 'maxItems') };
    case 'not':
      return { not: anySchema(g, depth - 1) };
    case 'anyOf':
    case 'oneOf':
      return { [kind]: [anySchema(g, depth - 1), anySchema(g, depth - 1)] };
    default:
      return {};
  }
}

function limits(g: GeneratorValue, lower: string, upper: string): TestSchema {
  return {
    ...(chance(g, 30) ? { [lower]: g(() => small) } : {}),
    ...(chance(g, 30) ? { [upper]: g(() => small) } : {}),
  };
}

const KEYWORDS =
  'type enum minimum maximum maxLength minItems required additionalProperties items anyOf not properties description'.split(
    ' ',
  );

/** A copy with one to three random edits at random places. */
export function editedSchema(g: GeneratorValue, schema: TestSchema): TestSchema {
  const copy = structuredClone(schema);
  for (let edits = g(fc.integer, { min: 1, max: 3 }); edits > 0; edits -= 1) edit(g, some(g, placesIn(copy)));
  return copy;
}

function edit(g: GeneratorValue, place: TestSchema): void {
  const properties = place['properties'] as Record<string, unknown> | undefined;
  if (properties !== undefined && chance(g, 60)) {
    properties[some(g, [...NAMES, 'd'])] = anySchema(g, 1);
    return;
  }
  const keyword = some(g, KEYWORDS);
  if (chance(g, 30)) Reflect.deleteProperty(place, keyword);
  else place[keyword] = newValue(g, keyword);
}

function newValue(g: GeneratorValue, keyword: string): unknown {
  switch (keyword) {
    case 'type':
      return some<unknown>(g, ['string', 'integer', 'object', 'number', ['integer', 'string']]);
    case 'enum':
      return g(fc.subarray, ['x', 'y', 'z', 1, 2], { minLength: 1 });
    case 'required':
      return g(fc.subarray, NAMES);
    case 'additionalProperties':
      return chance(g, 50) ? chance(g, 50) : anySchema(g, 0);
    case 'anyOf':
      return [anySchema(g, 0), anySchema(g, 0)];
    case 'items':
    case 'not':
      return anySchema(g, 0);
    case 'properties':
      return { [some(g, NAMES)]: anySchema(g, 0) };
    case 'description':
      return 'says something else';
    default:
      return g(() => small);
  }
}

/** Every schema in a schema. */
function placesIn(schema: unknown): TestSchema[] {
  if (typeof schema !== 'object' || schema === null) return [];
  const place = schema as TestSchema;
  const children = [
    ...Object.values(place['properties'] ?? {}),
    ...((place['anyOf'] ?? []) as unknown[]),
    ...((place['oneOf'] ?? []) as unknown[]),
    place['items'],
    place['not'],
    place['additionalProperties'],
  ];
  return [place, ...children.flatMap(placesIn)];
}

/** A value that is likely to fit the schema, and now and then does not. */
export function valueFor(g: GeneratorValue, schema: unknown): unknown {
  const place = (typeof schema === 'object' ? schema : {}) as TestSchema;
  const choices = (place['enum'] ?? place['anyOf'] ?? place['oneOf']) as unknown[] | undefined;
  if (choices !== undefined) {
    const chosen = some(g, choices);
    return place['enum'] === undefined ? valueFor(g, chosen) : chosen;
  }
  switch (place['type']) {
    case 'integer':
      return g(() => small);
    case 'string':
      return 'x'.repeat(g(() => small));
    case 'array':
      return Array.from({ length: g(() => small) }, () => valueFor(g, place['items']));
    case 'object':
      return objectFor(g, place);
    default:
      return some<unknown>(g, ['x', 'y', 1, null, {}, { a: 1 }, ['x']]);
  }
}

function objectFor(g: GeneratorValue, place: TestSchema): object {
  const required = (place['required'] ?? []) as readonly string[];
  const known = Object.entries(place['properties'] ?? {})
    .filter(([name]) => required.includes(name) || chance(g, 60))
    .map(([name, schema]): [string, unknown] => [name, valueFor(g, schema)]);
  const others = place['additionalProperties'] ?? true;
  const more =
    others === false
      ? []
      : g(fc.subarray, ['c', 'd', 'e']).map((name): [string, unknown] => [name, valueFor(g, others)]);
  return Object.fromEntries([...more, ...known]);
}
