import {
  conditionPlaces,
  isSchemaObject,
  markablePlaces,
  objectAt,
  refTarget,
  samePlaces,
  type SchemaDocument,
  type SchemaObject,
  writtenPlaces,
} from './document.ts';
import { KEYWORD, type PlannedMark, readMark, type Sensitive } from './mark.ts';
import { checkPatterns, isImpossible } from './patterns.ts';
import { childPlaces, type PlanNode, prefixLength, type SealingPlan, type Step } from './plan.ts';
import { checkRules } from './rules.ts';
import { SealingSchemaError } from './schema-error.ts';

const MAX_NODES = 1_000;

/**
 * What of data of a schema has to be sealed; null where nothing is.
 *
 * @param declared class and person of marks that do not name their own
 * @throws SealingSchemaError for marks that contradict each other or their schema
 */
export function sealingPlan(schema: SchemaObject, declared?: Sensitive): SealingPlan | null {
  const document = { root: schema };
  const marked = writtenPlaces(document).some((place) => isMarked(objectAt(document, place)));
  if (!marked) return null;
  const reach = markReach(document);
  refuseUnreachedMarks(document, reach);
  if (!reach('#')) return null;
  return buildPlan(document, declared, reach);
}

function isMarked(schema: SchemaObject): boolean {
  return schema[KEYWORD] !== undefined && schema[KEYWORD] !== false;
}

type Reach = (place: string, conditions?: boolean) => boolean;

/** Whether a mark is at a place or below it; with `conditions`, also in what only asks about values. */
function markReach(document: SchemaDocument): Reach {
  return (start, conditions = false) => {
    const seen = new Set<string>();
    const open = [start];
    for (let place = open.pop(); place !== undefined; place = open.pop()) {
      if (seen.has(place)) continue;
      seen.add(place);
      const schema = objectAt(document, place);
      if (isMarked(schema)) return true;
      const target = refTarget(document, place, schema);
      if (target !== null) open.push(target);
      open.push(...markablePlaces(place, schema));
      if (conditions) open.push(...conditionPlaces(place, schema));
    }
    return false;
  };
}

/** A mark in a question would be read as a mark by a person, and do nothing. */
function refuseUnreachedMarks(document: SchemaDocument, reach: Reach): void {
  const seen = new Set<string>();
  const open = ['#'];
  for (let place = open.pop(); place !== undefined; place = open.pop()) {
    if (seen.has(place)) continue;
    seen.add(place);
    const schema = objectAt(document, place);
    for (const condition of conditionPlaces(place, schema)) {
      if (reach(condition, true)) {
        throw new SealingSchemaError('SEALING_MARK_PLACE', condition, 'a mark here would have no effect.');
      }
    }
    const target = refTarget(document, place, schema);
    if (target !== null) open.push(target);
    open.push(...markablePlaces(place, schema));
  }
}

interface Draft {
  number: number;
  mark: PlannedMark | null;
  properties: Map<string, PlanNode | null>;
  patterns: RegExp[];
  sources: string[];
  others: (PlanNode | null)[];
  prefix: (PlanNode | null)[];
  items: PlanNode | null;
  places: readonly string[];
}

function buildPlan(document: SchemaDocument, declared: Sensitive | undefined, reach: Reach): SealingPlan {
  const nodes: Draft[] = [];
  const known = new Map<string, Draft>();
  const open: { readonly node: Draft; readonly path: readonly Step[] }[] = [];

  const nodeFor = (entries: readonly string[], path: readonly Step[]): Draft | null => {
    if (!entries.some((place) => reach(place))) return null;
    const places = samePlaces(document, entries);
    const key = places.join('\n');
    const before = known.get(key);
    if (before !== undefined) return before;
    if (nodes.length === MAX_NODES) {
      throw new SealingSchemaError(
        'SEALING_SCHEMA_LIMIT',
        places[0] ?? '#',
        `more than ${MAX_NODES} different places.`,
      );
    }
    const node: Draft = {
      number: nodes.length,
      mark: markOf(document, places, declared),
      properties: new Map(),
      patterns: [],
      sources: [],
      others: [],
      prefix: [],
      items: null,
      places,
    };
    nodes.push(node);
    known.set(key, node);
    open.push({ node, path });
    return node;
  };

  const root = nodeFor(['#'], []) as Draft;
  if (root.mark !== null) {
    throw new SealingSchemaError('SEALING_MARK_PLACE', '#', 'the data as a whole cannot be sealed: mark its fields.');
  }
  const paths: (readonly Step[])[] = [];
  for (let next = open.shift(); next !== undefined; next = open.shift()) {
    const { node, path } = next;
    paths[node.number] = path;
    if (node.mark !== null) refuseNested(document, node.places, reach);
    else connect(document, node, (step) => nodeFor(childPlaces(document, node.places, step), [...path, step]));
  }
  const plan = { document, root, nodes };
  for (const node of nodes) checkRules(plan, node, paths[node.number] ?? []);
  return plan;
}

function markOf(
  document: SchemaDocument,
  places: readonly string[],
  declared: Sensitive | undefined,
): PlannedMark | null {
  let found: { readonly place: string; readonly mark: PlannedMark; readonly text: string } | null = null;
  for (const place of places) {
    const mark = readMark(place, objectAt(document, place)[KEYWORD], declared);
    if (mark === null) continue;
    const text = JSON.stringify(mark);
    if (found !== null && found.text !== text) {
      throw new SealingSchemaError(
        'SEALING_MARK_CONFLICT',
        place,
        `another mark than ${found.place}, for the same place.`,
      );
    }
    found = { place, mark, text };
  }
  return found?.mark ?? null;
}

function refuseNested(document: SchemaDocument, places: readonly string[], reach: Reach): void {
  for (const place of places) {
    const schema = objectAt(document, place);
    const inner = markablePlaces(place, schema).find((child) => !places.includes(child) && reach(child));
    if (inner !== undefined) {
      throw new SealingSchemaError('SEALING_MARK_NESTED', inner, 'a mark inside a value that is sealed as a whole.');
    }
  }
}

function connect(document: SchemaDocument, node: Draft, nodeFor: (step: Step) => Draft | null): void {
  const schemas = node.places.map((place) => objectAt(document, place));
  const keysOf = (keyword: string): string[] => [
    ...new Set(schemas.flatMap((schema) => (isSchemaObject(schema[keyword]) ? Object.keys(schema[keyword]) : []))),
  ];
  for (const name of keysOf('properties')) node.properties.set(name, nodeFor({ property: name }));
  const sources = keysOf('patternProperties').toSorted();
  const place = node.places[0] ?? '#';
  checkPatterns(place, sources);
  node.sources = sources;
  node.patterns = sources.map((source) => new RegExp(source, 'u'));
  for (let mask = 0; mask < 1 << sources.length; mask += 1) {
    node.others.push(isImpossible(sources, mask) ? null : nodeFor({ others: mask, sources }));
  }
  const longest = Math.max(0, ...schemas.map((schema) => prefixLength(schema)));
  for (let index = 0; index < longest; index += 1) node.prefix.push(nodeFor({ index }));
  node.items = nodeFor({ items: true });
}
