import { below, isSchemaObject, schemaAt, type SchemaDocument, type SchemaObject } from './document.ts';
import type { PlannedMark } from './mark.ts';

/**
 * One place of the data, or all places that are treated alike. A child is null where nothing below it is marked.
 *
 * The plan of a schema is a graph of these: finite also where the schema is recursive, and the same for every value, because what
 * is marked in any branch is sealed in all.
 */
export interface PlanNode {
  readonly number: number;
  /** Sealed as a whole: such a place has no children. */
  readonly mark: PlannedMark | null;
  readonly properties: ReadonlyMap<string, PlanNode | null>;
  readonly patterns: readonly RegExp[];
  /** The patterns as they are written. */
  readonly sources: readonly string[];
  /** For names not in `properties`, by which patterns match: bit n for pattern n. */
  readonly others: readonly (PlanNode | null)[];
  readonly prefix: readonly (PlanNode | null)[];
  readonly items: PlanNode | null;
  /** The schemas that speak of this place, for the derivation of other schemas. */
  readonly places: readonly string[];
}

export interface SealingPlan {
  readonly document: SchemaDocument;
  readonly root: PlanNode;
  /** By number; the root is 0. */
  readonly nodes: readonly PlanNode[];
}

/** A step from a place to one below it. */
export type Step =
  | { readonly property: string }
  | { readonly others: number; readonly sources: readonly string[] }
  | { readonly index: number }
  | { readonly items: true };

export function childOf(node: PlanNode, name: string): PlanNode | null {
  const known = node.properties.get(name);
  if (known !== undefined) return known;
  let mask = 0;
  for (const [bit, pattern] of node.patterns.entries()) if (pattern.test(name)) mask |= 1 << bit;
  return node.others[mask] ?? null;
}

export function itemOf(node: PlanNode, index: number): PlanNode | null {
  return index < node.prefix.length ? (node.prefix[index] ?? null) : node.items;
}

export function prefixLength(schema: SchemaObject): number {
  return Array.isArray(schema['prefixItems']) ? schema['prefixItems'].length : 0;
}

/** The subschemas that these schemas hold for what lies a step below. */
export function childPlaces(document: SchemaDocument, places: readonly string[], step: Step): string[] {
  return places.flatMap((place) => childrenOf(place, schemaAt(document, place), step));
}

function childrenOf(place: string, schema: unknown, step: Step): string[] {
  if (!isSchemaObject(schema)) return [];
  if ('index' in step && step.index < prefixLength(schema)) return [below(place, 'prefixItems', step.index)];
  if ('index' in step || 'items' in step) return schema['items'] === undefined ? [] : [below(place, 'items')];
  const found: string[] = [];
  const properties = schema['properties'];
  if ('property' in step && isSchemaObject(properties) && Object.hasOwn(properties, step.property)) {
    found.push(below(place, 'properties', step.property));
  }
  const patterns = isSchemaObject(schema['patternProperties']) ? Object.keys(schema['patternProperties']) : [];
  for (const source of patterns) {
    const matches =
      'property' in step
        ? new RegExp(source, 'u').test(step.property)
        : (step.others & (1 << step.sources.indexOf(source))) !== 0;
    if (matches) found.push(below(place, 'patternProperties', source));
  }
  if (found.length === 0 && schema['additionalProperties'] !== undefined) {
    found.push(below(place, 'additionalProperties'));
  }
  return found;
}
