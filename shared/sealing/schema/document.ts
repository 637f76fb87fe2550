import { SealingSchemaError } from './schema-error.ts';

export type SchemaObject = Readonly<Record<string, unknown>>;

/** A schema document whose subschemas are named by their place: `#`, `#/properties/email`. */
export interface SchemaDocument {
  readonly root: SchemaObject;
}

const BY_NAME = ['properties', 'patternProperties', 'dependentSchemas'];
const LISTS = ['allOf', 'anyOf', 'oneOf', 'prefixItems'];
const SINGLE = ['items', 'additionalProperties', 'then', 'else'];
/** What they say of a value is a question, or is no statement about one value. */
const CONDITIONS = ['if', 'not', 'contains', 'propertyNames', 'unevaluatedItems', 'unevaluatedProperties'];
const DEFINITIONS = ['$defs', 'definitions'];
/** Keywords that rename places: none of them can be followed by place. */
const UNFOLLOWED = ['$dynamicRef', '$recursiveRef'];

export function isSchemaObject(value: unknown): value is SchemaObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** What stands at a place; undefined where nothing does. */
export function schemaAt({ root }: SchemaDocument, place: string): unknown {
  if (place === '#') return root;
  let current: unknown = root;
  for (const step of place.slice(2).split('/')) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof current !== 'object' || current === null || !Object.hasOwn(current, name)) return undefined;
    current = (current as Record<string, unknown>)[name];
  }
  return current;
}

/** The schema at a place where a schema object stands; `{}` for `true`, and `{ not: {} }` for `false`. */
export function objectAt(document: SchemaDocument, place: string): SchemaObject {
  const schema = schemaAt(document, place);
  if (isSchemaObject(schema)) return schema;
  return schema === false ? { not: {} } : {};
}

export function below(place: string, ...steps: readonly (string | number)[]): string {
  return [place, ...steps.map((step) => String(step).replaceAll('~', '~0').replaceAll('/', '~1'))].join('/');
}

/** Where a `$ref` leads. @throws SealingSchemaError (`SEALING_REFERENCE`) for all but a JSON Pointer into this document. */
export function refTarget(document: SchemaDocument, place: string, schema: SchemaObject): string | null {
  for (const keyword of UNFOLLOWED) {
    if (schema[keyword] !== undefined) throw unfollowed(place, `${keyword} cannot be followed in a schema with marks`);
  }
  if (place !== '#' && schema['$id'] !== undefined) throw unfollowed(place, '$id moves the references below it');
  const ref = schema['$ref'];
  if (ref === undefined) return null;
  if (typeof ref !== 'string' || !/^#(?:\/|$)/.test(ref)) {
    throw unfollowed(place, `$ref must be a JSON Pointer into the same schema, such as #/$defs/name`);
  }
  let target: string;
  try {
    target = decodeURIComponent(ref);
  } catch {
    throw unfollowed(place, '$ref is not a URI fragment');
  }
  const found = schemaAt(document, target);
  if (!isSchemaObject(found) && typeof found !== 'boolean') throw unfollowed(place, '$ref leads nowhere');
  return target;
}

function unfollowed(place: string, reason: string): SealingSchemaError {
  return new SealingSchemaError('SEALING_REFERENCE', place, `${reason}.`);
}

/** Places of the subschemas of one kind of keyword. */
function childrenUnder(
  place: string,
  schema: SchemaObject,
  byName: string[],
  lists: string[],
  single: string[],
): string[] {
  const found: string[] = [];
  for (const keyword of byName) {
    const map = schema[keyword];
    if (isSchemaObject(map)) found.push(...Object.keys(map).map((name) => below(place, keyword, name)));
  }
  for (const keyword of lists) {
    const list = schema[keyword];
    if (Array.isArray(list)) found.push(...list.map((_, index) => below(place, keyword, index)));
  }
  for (const keyword of single) {
    if (isSchemaObject(schema[keyword])) found.push(below(place, keyword));
  }
  return found;
}

/** Subschemas through which a value can be marked. */
export function markablePlaces(place: string, schema: SchemaObject): string[] {
  return childrenUnder(place, schema, BY_NAME, LISTS, SINGLE);
}

/** Subschemas that ask about a value. */
export function conditionPlaces(place: string, schema: SchemaObject): string[] {
  return childrenUnder(place, schema, [], [], CONDITIONS);
}

/** Every subschema that is written below a place, used or not, without following references. */
export function writtenPlaces(document: SchemaDocument, place = '#'): string[] {
  const schema = schemaAt(document, place);
  if (!isSchemaObject(schema)) return [];
  const children = [
    ...markablePlaces(place, schema),
    ...conditionPlaces(place, schema),
    ...childrenUnder(place, schema, DEFINITIONS, [], []),
  ];
  return [place, ...children.flatMap((child) => writtenPlaces(document, child))];
}

/** The schemas that speak of the same value as this one: itself, references and branches, conditions excepted. */
export function samePlaces(document: SchemaDocument, places: readonly string[]): string[] {
  const found = new Set<string>();
  const open = [...places];
  for (let place = open.pop(); place !== undefined; place = open.pop()) {
    if (found.has(place)) continue;
    found.add(place);
    const schema = objectAt(document, place);
    const target = refTarget(document, place, schema);
    if (target !== null) open.push(target);
    open.push(...childrenUnder(place, schema, ['dependentSchemas'], ['allOf', 'anyOf', 'oneOf'], ['then', 'else']));
  }
  return [...found].toSorted();
}
