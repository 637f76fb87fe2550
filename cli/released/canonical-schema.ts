export type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json;
}
/** A JSON Schema in the one way of writing it that two versions are compared in. */
export type CanonicalSchema = boolean | JsonObject;

/** Say something to people and nothing about data. */
const ANNOTATIONS = new Set(['$schema', '$comment', 'title', 'description', 'examples']);
const SCHEMAS_BY_NAME = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']);
const LISTS_OF_SCHEMAS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);
const SCHEMAS = new Set([
  'items',
  'additionalProperties',
  'propertyNames',
  'contains',
  'not',
  'if',
  'then',
  'else',
  'unevaluatedItems',
  'unevaluatedProperties',
]);
/** Lists whose order says nothing. */
const SETS = new Set(['required', 'enum', 'type']);

/** Equal text for equal values: keys are sorted. */
export function canonicalText(value: unknown): string {
  return JSON.stringify(sortKeys(value as Json));
}

function sortKeys(value: Json): Json {
  if (typeof value !== 'object' || value === null) return value;
  if (isList(value)) return value.map(sortKeys);
  return fromEntries(
    Object.entries(value)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([key, child]) => [key, sortKeys(child)]),
  );
}

/**
 * Without annotations, keys and sets sorted, `{}` as `true`, `const` as an `enum` of one. Accepts what the schema accepts.
 */
export function canonicalSchema(schema: unknown): CanonicalSchema {
  return sortKeys(canonical(schema as Json)) as CanonicalSchema;
}

function canonical(schema: Json): Json {
  if (!isObject(schema)) return schema;
  const entries = Object.entries(schema)
    .filter(([key, value]) => !ANNOTATIONS.has(key) && value !== undefined)
    .map(([key, value]): [string, Json] => {
      if (SCHEMAS.has(key)) return [key, canonical(value)];
      if (LISTS_OF_SCHEMAS.has(key) && isList(value)) return [key, value.map(canonical)];
      if (SCHEMAS_BY_NAME.has(key) && isObject(value)) {
        return [key, fromEntries(Object.entries(value).map(([name, child]) => [name, canonical(child)]))];
      }
      if (SETS.has(key)) return [key, canonicalSet(key, value)];
      return key === 'const' && schema['enum'] === undefined ? ['enum', [value]] : [key, value];
    });
  return entries.length === 0 ? true : fromEntries(entries);
}

function canonicalSet(key: string, value: Json): Json {
  const members = (isList(value) ? [...value] : [value])
    .map((member) => [canonicalText(member), member] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, member]) => member);
  return key === 'type' && members.length === 1 ? (members[0] ?? null) : members;
}

export function isObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !isList(value);
}

export function isList(value: Json | undefined): value is readonly Json[] {
  return Array.isArray(value);
}

/** A field may be called `__proto__`: `fromEntries` defines it, where an assignment would set the prototype. */
function fromEntries(entries: readonly (readonly [string, Json])[]): JsonObject {
  return Object.fromEntries(entries);
}
