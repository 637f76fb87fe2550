import {
  below,
  isSchemaObject,
  objectAt,
  refTarget,
  schemaAt,
  type SchemaDocument,
  type SchemaObject,
} from './document.ts';
import { KEYWORD, type PlannedMark } from './mark.ts';
import { childOf, childPlaces, itemOf, type PlanNode, prefixLength, type SealingPlan, type Step } from './plan.ts';
import { SealingSchemaError } from './schema-error.ts';

/** Say something to people and nothing about values. */
const ANNOTATIONS = new Set([
  '$comment',
  'title',
  'description',
  'examples',
  'default',
  'deprecated',
  'readOnly',
  'writeOnly',
  KEYWORD,
]);

/** @throws SealingSchemaError where a marked place could be looked at, missed or not attributed to its person. */
export function checkRules(plan: SealingPlan, node: PlanNode, path: readonly Step[]): void {
  const { document } = plan;
  if (node.mark !== null) {
    checkSubject(plan, node, node.mark, path);
    return;
  }
  for (const place of node.places) {
    const schema = objectAt(document, place);
    refuseComparison(place, schema);
    for (const keyword of ['unevaluatedProperties', 'unevaluatedItems']) {
      if (isSchemaObject(schema[keyword])) {
        throw new SealingSchemaError(
          'SEALING_SCHEMA_OPEN',
          below(place, keyword),
          'must be false, or be additionalProperties or items.',
        );
      }
    }
    if (schema['contains'] !== undefined) {
      for (const item of [...node.prefix, node.items]) refuseCondition(document, below(place, 'contains'), item);
    }
    for (const keyword of ['if', 'not']) {
      if (schema[keyword] !== undefined) refuseCondition(document, below(place, keyword), node);
    }
  }
  const at = node.places[0] ?? '#';
  if (!holds(document, '#', path, closedToNames)) {
    throw new SealingSchemaError(
      'SEALING_SCHEMA_OPEN',
      at,
      'holds marked fields and lets unknown ones pass: set additionalProperties to false.',
    );
  }
  if (!holds(document, '#', path, closedToItems)) {
    throw new SealingSchemaError(
      'SEALING_SCHEMA_OPEN',
      at,
      'holds marked items and lets unknown ones pass: set items.',
    );
  }
}

/** A constant that holds objects or arrays would be compared with sealed values. */
function refuseComparison(place: string, schema: SchemaObject): void {
  for (const keyword of ['const', 'enum']) {
    const values: unknown = keyword === 'const' && Object.hasOwn(schema, keyword) ? [schema[keyword]] : schema[keyword];
    if (Array.isArray(values) && values.some((value) => typeof value === 'object' && value !== null)) {
      throw new SealingSchemaError('SEALING_CONDITION', below(place, keyword), 'compares values that are sealed.');
    }
  }
}

/** @throws SealingSchemaError (`SEALING_CONDITION`) where a question at a place depends on a sealed value. */
function refuseCondition(document: SchemaDocument, start: string, at: PlanNode | null): void {
  const seen = new Set<string>();
  const ask = (place: string, node: PlanNode | null): void => {
    const key = `${place} ${node?.number}`;
    const schema = schemaAt(document, place);
    if (node === null || !isSchemaObject(schema) || seen.has(key)) return;
    seen.add(key);
    if (node.mark !== null) {
      const asked = Object.keys(schema).find((keyword) => !ANNOTATIONS.has(keyword));
      if (asked === undefined) return;
      throw new SealingSchemaError(
        'SEALING_CONDITION',
        below(place, asked),
        'is a condition on a value that is sealed.',
      );
    }
    refuseComparison(place, schema);
    const target = refTarget(document, place, schema);
    if (target !== null) ask(target, node);
    for (const keyword of ['allOf', 'anyOf', 'oneOf']) {
      for (let index = 0; index < lengthOf(schema[keyword]); index += 1) ask(below(place, keyword, index), node);
    }
    for (const keyword of ['if', 'then', 'else', 'not']) ask(below(place, keyword), node);
    for (const name of keysOf(schema['dependentSchemas'])) ask(below(place, 'dependentSchemas', name), node);
    for (const name of keysOf(schema['properties'])) ask(below(place, 'properties', name), childOf(node, name));
    const children = new Set([...node.properties.values(), ...node.others]);
    const unnamed = keysOf(schema['patternProperties']).map((source) => below(place, 'patternProperties', source));
    for (const keyword of ['additionalProperties', 'unevaluatedProperties']) unnamed.push(below(place, keyword));
    for (const child of unnamed) for (const value of children) ask(child, value);
    for (let index = 0; index < prefixLength(schema); index += 1)
      ask(below(place, 'prefixItems', index), itemOf(node, index));
    for (const keyword of ['items', 'contains', 'unevaluatedItems']) {
      for (const item of new Set([...node.prefix, node.items])) ask(below(place, keyword), item);
    }
  };
  ask(start, at);
}

type Test = (schema: SchemaObject) => boolean;

/**
 * Whether a schema sees to it that the value some steps below passes a test, in whichever branch the data is. A branch that has no
 * such value sees to it too.
 */
function holds(document: SchemaDocument, start: string, path: readonly Step[], test: Test): boolean {
  const seen = new Set<string>();
  const check = (place: string, depth: number): boolean => {
    const key = `${depth} ${place}`;
    const schema = schemaAt(document, place);
    if (schema === false) return true;
    if (!isSchemaObject(schema) || seen.has(key)) return false;
    seen.add(key);
    const step = path[depth];
    if (step === undefined ? test(schema) : excludes(schema, 'index' in step || 'items' in step ? 'array' : 'object'))
      return true;
    if (step !== undefined && childPlaces(document, [place], step).some((child) => check(child, depth + 1)))
      return true;
    const target = refTarget(document, place, schema);
    if (target !== null && check(target, depth)) return true;
    const branches = (keyword: string): string[] =>
      Array.from({ length: lengthOf(schema[keyword]) }, (_, index) => below(place, keyword, index));
    if (branches('allOf').some((branch) => check(branch, depth))) return true;
    for (const keyword of ['anyOf', 'oneOf']) {
      const all = branches(keyword);
      if (all.length > 0 && all.every((branch) => check(branch, depth))) return true;
    }
    const both = schema['then'] !== undefined && schema['else'] !== undefined;
    return both && check(below(place, 'then'), depth) && check(below(place, 'else'), depth);
  };
  return check(start, 0);
}

/** Whether no value of this type passes. */
function excludes(schema: SchemaObject, type: 'object' | 'array'): boolean {
  const types = schema['type'];
  if (typeof types === 'string' ? types !== type : Array.isArray(types) && !types.includes(type)) return true;
  return Object.hasOwn(schema, 'const') || schema['enum'] !== undefined; // of simple values: refuseComparison
}

function closedToNames(schema: SchemaObject): boolean {
  return (
    excludes(schema, 'object') || isClosing(schema['additionalProperties']) || schema['unevaluatedProperties'] === false
  );
}

function closedToItems(schema: SchemaObject): boolean {
  const { maxItems } = schema;
  return (
    excludes(schema, 'array') ||
    isClosing(schema['items']) ||
    schema['unevaluatedItems'] === false ||
    (typeof maxItems === 'number' && maxItems <= prefixLength(schema))
  );
}

/** `true` and `{}` let everything pass. */
function isClosing(schema: unknown): boolean {
  return (
    schema === false ||
    (isSchemaObject(schema) && Object.keys(schema).some((keyword) => !ANNOTATIONS.has(keyword) || keyword === KEYWORD))
  );
}

function checkSubject(
  { document, root }: SealingPlan,
  marked: PlanNode,
  mark: PlannedMark,
  path: readonly Step[],
): void {
  const place = marked.places.find((it) => objectAt(document, it)[KEYWORD] !== undefined) ?? '#';
  const fault = (reason: string): SealingSchemaError => new SealingSchemaError('SEALING_SUBJECT', place, reason);
  const { up, kind, steps } = mark.subject;
  if (up === 0) throw fault('the subject must be another field than the value itself.');
  if (up !== null && up > path.length)
    throw fault(`the subject is ${up} levels up, and there are only ${path.length}.`);
  const start = up === null ? [] : path.slice(0, path.length - up);
  const names =
    kind === null
      ? [
          [...steps, 'kind'],
          [...steps, 'id'],
        ]
      : [steps];
  for (const [down, what] of names.map((it, index) => [it, kind === null && index === 0 ? 'kind' : 'id'] as const)) {
    let node: PlanNode | null = root;
    for (const step of start) node = node === null ? null : stepInto(node, step);
    const to: Step[] = [...start];
    for (const name of down) {
      const required = (schema: SchemaObject): boolean =>
        Array.isArray(schema['required']) && schema['required'].includes(name);
      if (!holds(document, '#', to, required))
        throw fault(`the subject's ${what} is not required at ${JSON.stringify(name)}.`);
      to.push({ property: name });
      node = node === null ? null : childOf(node, name);
      if (node !== null && node.mark !== null) break;
    }
    if (down.length === 0) throw fault('the subject must be a field.');
    if (node !== null) throw fault(`the subject's ${what} is sealed itself, or holds what is.`);
    if (!holds(document, '#', to, isText)) throw fault(`the subject's ${what} must be declared as a string.`);
  }
}

function isText(schema: SchemaObject): boolean {
  return schema['type'] === 'string' || typeof schema['const'] === 'string';
}

function stepInto(node: PlanNode, step: Step): PlanNode | null {
  if ('property' in step) return childOf(node, step.property);
  if ('others' in step) return node.others[step.others] ?? null;
  return 'index' in step ? itemOf(node, step.index) : node.items;
}

function keysOf(value: unknown): string[] {
  return isSchemaObject(value) ? Object.keys(value) : [];
}

function lengthOf(value: unknown): number {
  return Array.isArray(value) ? value.length : 0;
}
