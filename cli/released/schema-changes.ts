import {
  type CanonicalSchema,
  canonicalText,
  isList,
  isObject,
  type Json,
  type JsonObject,
} from './canonical-schema.ts';

/** A difference between a released schema and the present one. */
export interface SchemaChange {
  /** JSON Pointer into the schema. */
  readonly pointer: string;
  readonly breaking: boolean;
  readonly text: string;
}

const STORED = 'events that are stored would no longer be valid';
const READERS = 'readers would meet what this version promised they never would';
const UNSHOWN = 'this cannot be shown to be compatible';

/** Keywords under which a schema that accepts more can make the whole accept less. */
const NOT_MONOTONE = new Set(
  'not if then else oneOf contains propertyNames patternProperties dependentSchemas'.split(' '),
);
/** Keywords whose meaning depends on places far away. */
const FAR_REACHING = new Set(
  'unevaluatedItems unevaluatedProperties $dynamicRef $dynamicAnchor $anchor $id'.split(' '),
);

/**
 * What changed between two canonical schemas of one version, in sentences.
 *
 * Within a version nothing may change for those who wrote or read it, except that an optional field is added: where the
 * object was closed no stored event can hold that field already, and readers look at the fields they know. So whatever
 * has no breaking change accepts every value that was accepted before, and gives readers nothing else but fields that
 * they do not know.
 */
export function schemaChanges(released: CanonicalSchema, present: CanonicalSchema): SchemaChange[] {
  if (canonicalText(released) === canonicalText(present)) return [];
  const keys = new Set([...keysIn(released), ...keysIn(present)]);
  const refers = keys.has('$ref') && [...NOT_MONOTONE].some((key) => keys.has(key));
  const entangled = [...FAR_REACHING].find((key) => keys.has(key)) ?? (refers ? '$ref beside conditions' : undefined);
  if (entangled !== undefined) {
    return [{ pointer: '', breaking: true, text: `the schema changed and holds ${entangled}: ${UNSHOWN}` }];
  }
  return [...compare(released, present, '')];
}

function* compare(was: CanonicalSchema, is: CanonicalSchema, at: string): Generator<SchemaChange> {
  if (canonicalText(was) === canonicalText(is)) return;
  if (!isObject(was) || !isObject(is)) {
    const effect = was === true ? STORED : is === true ? READERS : UNSHOWN;
    yield breaking(at, `changed from ${short(was)} to ${short(is)}: ${effect}`);
    return;
  }
  for (const key of new Set([...Object.keys(was), ...Object.keys(is)])) {
    // A keyword may have the value null, which is not the same as to be missing.
    const inBoth = Object.hasOwn(was, key) && Object.hasOwn(is, key);
    if (inBoth && canonicalText(was[key]) === canonicalText(is[key])) continue;
    yield* compareKeyword(key, was, is, `${at}/${escapePointer(key)}`);
  }
}

function* compareKeyword(key: string, was: JsonObject, is: JsonObject, at: string): Generator<SchemaChange> {
  const [before, after] = [was[key], is[key]];
  switch (key) {
    case 'type':
      yield* compareSets(at, 'type', typesOf(before), typesOf(after));
      return;
    case 'enum':
      yield* compareSets(at, 'value', membersOf(before), membersOf(after));
      return;
    case 'required':
      yield* compareRequired(at, membersOf(before) ?? [], membersOf(after) ?? []);
      return;
    case 'properties':
      yield* compareProperties(at, was, is);
      return;
    case 'additionalProperties':
      if (before === false) yield { pointer: at, breaking: false, text: 'the object was closed and may hold more now' };
      else yield* compare((before ?? true) as CanonicalSchema, (after ?? true) as CanonicalSchema, at);
      return;
    case 'items':
      yield* compare((before ?? true) as CanonicalSchema, (after ?? true) as CanonicalSchema, at);
      return;
    case '$defs':
      yield* compareDefinitions(at, before, after);
      return;
    case 'allOf':
    case 'anyOf':
    case 'prefixItems':
      if (!isList(before) || !isList(after) || before.length !== after.length) {
        yield breaking(at, `holds other schemas now: ${UNSHOWN}`);
        return;
      }
      for (const [index, schema] of before.entries()) {
        yield* compare(schema as CanonicalSchema, after[index] as CanonicalSchema, `${at}/${index}`);
      }
      return;
    default:
      yield breaking(at, `${changeOf(before, after)}: ${consequence(key, before, after)}`);
  }
}

function* compareProperties(at: string, was: JsonObject, is: JsonObject): Generator<SchemaChange> {
  const before = isObject(was['properties']) ? was['properties'] : {};
  const after = isObject(is['properties']) ? is['properties'] : {};
  const required = new Set(membersOf(is['required']));
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const pointer = `${at}/${escapePointer(name)}`;
    const [old, now] = [own(before, name), own(after, name)];
    if (old !== undefined && now !== undefined) {
      yield* compare(old as CanonicalSchema, now as CanonicalSchema, pointer);
    } else if (now === undefined) {
      yield breaking(pointer, 'the field was removed: stored events hold it, and readers may rely on it');
    } else if (!required.has(canonicalText(name))) {
      yield addedField(pointer, was, now);
    }
  }
}

/** A required one is reported where it is required. */
function addedField(pointer: string, was: JsonObject, field: Json): SchemaChange {
  if (was['patternProperties'] !== undefined) {
    return breaking(pointer, `a field was added beside patternProperties: ${UNSHOWN}`);
  }
  const others = was['additionalProperties'] ?? true;
  if (others === false || canonicalText(others) === canonicalText(field)) {
    return { pointer, breaking: false, text: 'an optional field was added' };
  }
  return breaking(
    pointer,
    `a field was added to an open object (no "additionalProperties": false): a stored event may hold anything under this name, and ${STORED}`,
  );
}

function* compareRequired(at: string, before: readonly string[], after: readonly string[]): Generator<SchemaChange> {
  for (const name of after.filter((it) => !before.includes(it))) {
    yield breaking(at, `${name} is required now: ${STORED}`);
  }
  for (const name of before.filter((it) => !after.includes(it))) {
    yield breaking(at, `${name} is no longer required: ${READERS}`);
  }
}

/** A missing list accepts everything. */
function* compareSets(
  at: string,
  what: string,
  before: readonly string[] | undefined,
  after: readonly string[] | undefined,
): Generator<SchemaChange> {
  if (before === undefined || after === undefined) {
    yield breaking(at, before === undefined ? `was added: ${STORED}` : `was removed: ${READERS}`);
    return;
  }
  const gone = before.filter((it) => !after.includes(it));
  const added = after.filter((it) => !before.includes(it));
  if (gone.length > 0) yield breaking(at, `${what} ${gone.join(', ')} is no longer accepted: ${STORED}`);
  if (added.length > 0) yield breaking(at, `${what} ${added.join(', ')} is accepted now: ${READERS}`);
}

function* compareDefinitions(at: string, was: Json | undefined, is: Json | undefined): Generator<SchemaChange> {
  const before = isObject(was) ? was : {};
  const after = isObject(is) ? is : {};
  for (const name of Object.keys(before)) {
    // A definition that was added or removed is reported where it is referred to.
    const [old, now] = [own(before, name), own(after, name)];
    if (now !== undefined)
      yield* compare(old as CanonicalSchema, now as CanonicalSchema, `${at}/${escapePointer(name)}`);
  }
}

/** Whether a larger number lets more pass. */
const LIMITS: Readonly<Record<string, 'upper' | 'lower'>> = {
  maximum: 'upper',
  exclusiveMaximum: 'upper',
  maxLength: 'upper',
  maxItems: 'upper',
  maxProperties: 'upper',
  minimum: 'lower',
  exclusiveMinimum: 'lower',
  minLength: 'lower',
  minItems: 'lower',
  minProperties: 'lower',
};
/** Keywords that only take away: without them more passes. */
const DEMANDS = new Set(['pattern', 'format', 'multipleOf', 'uniqueItems', ...Object.keys(LIMITS)]);

function consequence(key: string, before: Json | undefined, after: Json | undefined): string {
  if (!DEMANDS.has(key)) return UNSHOWN;
  if (before === undefined) return STORED;
  if (after === undefined) return READERS;
  const limit = LIMITS[key];
  if (limit === undefined || typeof before !== 'number' || typeof after !== 'number') return UNSHOWN;
  return after > before === (limit === 'upper') ? READERS : STORED;
}

function changeOf(before: Json | undefined, after: Json | undefined): string {
  if (before === undefined) return `was added as ${short(after)}`;
  if (after === undefined) return `was removed (it was ${short(before)})`;
  return `changed from ${short(before)} to ${short(after)}`;
}

function short(value: Json | undefined): string {
  const text = canonicalText(value ?? null);
  return text.length <= 60 ? text : `${text.slice(0, 57)}…`;
}

/** `number` takes integers, too. */
function typesOf(value: Json | undefined): readonly string[] | undefined {
  const types = typeof value === 'string' ? [canonicalText(value)] : membersOf(value);
  return types?.includes('"number"') === true ? [...new Set([...types, '"integer"'])] : types;
}

function membersOf(value: Json | undefined): string[] | undefined {
  return isList(value) ? value.map(canonicalText) : undefined;
}

function breaking(pointer: string, text: string): SchemaChange {
  return { pointer, breaking: true, text };
}

function own(object: JsonObject, name: string): Json | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

/** Every key at every depth. Names of fields count as well, which only makes the answer more careful. */
function* keysIn(value: Json): Generator<string> {
  if (isList(value)) {
    for (const child of value) yield* keysIn(child);
  } else if (isObject(value)) {
    for (const [key, child] of Object.entries(value)) {
      yield key;
      yield* keysIn(child);
    }
  }
}

function escapePointer(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1');
}
