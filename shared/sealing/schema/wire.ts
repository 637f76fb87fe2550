import { sealedPattern } from '../sealed-text.ts';
import { below, isSchemaObject, objectAt, refTarget, schemaAt, type SchemaObject } from './document.ts';
import { KEYWORD } from './mark.ts';
import { isImpossible } from './patterns.ts';
import { childOf, itemOf, type PlanNode, prefixLength, type SealingPlan } from './plan.ts';
import { SealingSchemaError } from './schema-error.ts';

const LISTS = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);
/** Ask about values that are not sealed: only their references change. */
const CONDITIONS = new Set(['if', 'not', 'contains', 'propertyNames', 'unevaluatedItems', 'unevaluatedProperties']);
const BRANCHES = new Set(['then', 'else']);
const DROPPED = new Set(['$defs', 'definitions', 'examples', 'default', KEYWORD]);

/**
 * The schema of what is stored and sent: sealed strings at marked places, checked without any key. It never asks which of several
 * branches fits (`oneOf` becomes `anyOf`), since only readers could tell.
 */
export function wireSchema(plan: SealingPlan): SchemaObject {
  return createWriter(plan).document();
}

type Named = Record<string, unknown>;

function createWriter(plan: SealingPlan): { document(): SchemaObject } {
  const { document, root } = plan;
  const definitions: Named = {};
  const names = new Map<string, string>();

  /** The same schema is a different one at another place of the data. */
  const reference = (target: string, node: PlanNode | null): string => {
    if (target === '#' && node === root) return '#';
    const key = `${node?.number} ${target}`;
    const before = names.get(key);
    if (before !== undefined) return `#/$defs/${before}`;
    const name = `d${names.size + 1}`;
    names.set(key, name);
    definitions[name] = true;
    definitions[name] = write(target, node);
    return `#/$defs/${name}`;
  };

  function write(place: string, node: PlanNode | null): unknown {
    const schema = schemaAt(document, place);
    if (!isSchemaObject(schema)) return schema;
    if (node !== null && node.mark !== null) return sealed(plan, place, node.mark.class);
    const result: Named = {};
    for (const [keyword, value] of Object.entries(schema)) {
      if (node !== null && keyword === 'oneOf') continue;
      if (!DROPPED.has(keyword)) result[keyword] = writeKeyword(place, schema, keyword, value, node);
    }
    if (node !== null) {
      writeBranches(place, schema, node, result);
      writeNames(place, schema, node, result);
      writeItems(place, schema, node, result);
    }
    return result;
  }

  function writeKeyword(
    place: string,
    schema: SchemaObject,
    keyword: string,
    value: unknown,
    node: PlanNode | null,
  ): unknown {
    const target = keyword === '$ref' ? refTarget(document, place, schema) : null;
    if (target !== null) return reference(target, node);
    if (LISTS.has(keyword) && Array.isArray(value)) {
      return value.map((_, index) =>
        write(below(place, keyword, index), keyword === 'prefixItems' && node !== null ? itemOf(node, index) : node),
      );
    }
    if (BRANCHES.has(keyword)) return write(below(place, keyword), node);
    if (CONDITIONS.has(keyword) || keyword === 'items' || keyword === 'additionalProperties') {
      return write(below(place, keyword), null);
    }
    if (
      (keyword === 'properties' || keyword === 'patternProperties' || keyword === 'dependentSchemas') &&
      isSchemaObject(value)
    ) {
      const inner = keyword === 'dependentSchemas' ? node : null;
      return Object.fromEntries(Object.keys(value).map((name) => [name, write(below(place, keyword, name), inner)]));
    }
    return value;
  }

  function writeBranches(place: string, schema: SchemaObject, node: PlanNode, result: Named): void {
    if (!Array.isArray(schema['oneOf'])) return;
    const anyOf = schema['oneOf'].map((_, index) => write(below(place, 'oneOf', index), node));
    if (result['anyOf'] === undefined) result['anyOf'] = anyOf;
    else result['allOf'] = [...((result['allOf'] as unknown[] | undefined) ?? []), { anyOf }];
  }

  function writeNames(place: string, schema: SchemaObject, node: PlanNode, result: Named): void {
    const own = isSchemaObject(schema['properties']) ? Object.keys(schema['properties']) : [];
    const ownPatterns = isSchemaObject(schema['patternProperties']) ? Object.keys(schema['patternProperties']) : [];
    const rest = schema['additionalProperties'];
    const properties: [string, unknown][] = own.map((name) => [
      name,
      write(below(place, 'properties', name), childOf(node, name)),
    ]);
    const patterns: [string, unknown][] = ownPatterns.map((source) => [
      source,
      write(below(place, 'patternProperties', source), nodeOfPattern(place, node, source)),
    ]);
    if (isSchemaObject(rest)) {
      const unnamed = node.others[0] ?? null;
      const restPlace = below(place, 'additionalProperties');
      // Names that others speak of get here what is written there: out of the rest, which is one schema for all.
      for (const [name, child] of node.properties) {
        const matched = ownPatterns.some((source) => new RegExp(source, 'u').test(name));
        if (!own.includes(name) && !matched && child !== unnamed) properties.push([name, write(restPlace, child)]);
      }
      for (const source of node.sources) {
        if (ownPatterns.includes(source)) continue;
        const child = nodeOfPattern(place, node, source);
        if (child !== unnamed) patterns.push([source, write(restPlace, child)]);
      }
      result['additionalProperties'] = write(restPlace, unnamed);
    }
    if (properties.length > 0) result['properties'] = Object.fromEntries(properties);
    if (patterns.length > 0) result['patternProperties'] = Object.fromEntries(patterns);
  }

  function writeItems(place: string, schema: SchemaObject, node: PlanNode, result: Named): void {
    if (!isSchemaObject(schema['items'])) return;
    const items = below(place, 'items');
    const length = prefixLength(schema);
    if (node.prefix.slice(length).some((child) => child !== node.items)) {
      const more = node.prefix.slice(length).map((child) => write(items, child));
      result['prefixItems'] = [...((result['prefixItems'] as unknown[] | undefined) ?? []), ...more];
    }
    result['items'] = write(items, node.items);
  }

  return {
    document: () => {
      const written = write('#', root) as SchemaObject;
      return names.size === 0 ? written : { ...written, $defs: definitions };
    },
  };
}

/** What one pattern says holds for all names that match it: they must be sealed alike. */
function nodeOfPattern(place: string, node: PlanNode, source: string): PlanNode | null {
  const bit = node.sources.indexOf(source);
  const pattern = node.patterns[bit];
  const nodes = new Set<PlanNode | null>();
  for (const [name, child] of node.properties) if (pattern?.test(name) === true) nodes.add(child);
  for (const [mask, child] of node.others.entries()) {
    if ((mask & (1 << bit)) !== 0 && !isImpossible(node.sources, mask)) nodes.add(child);
  }
  if (nodes.size > 1) {
    throw new SealingSchemaError(
      'SEALING_PATTERN',
      below(place, 'patternProperties', source),
      'matches names that are sealed in different ways: write patterns and names that do not overlap.',
    );
  }
  return [...nodes][0] ?? null;
}

/** `null` stays clear, where the schema lets it pass at all. */
function sealed(plan: SealingPlan, place: string, className: string): SchemaObject {
  const pattern = sealedPattern(className);
  return acceptsNull(plan, place) ? { type: ['string', 'null'], pattern } : { type: 'string', pattern };
}

function acceptsNull(plan: SealingPlan, place: string, depth = 0): boolean {
  if (depth > 100) return false; // refers to itself in a circle: no value passes
  const { document } = plan;
  const value = schemaAt(document, place);
  if (!isSchemaObject(value)) return value !== false;
  const schema = objectAt(document, place);
  const types = schema['type'];
  if (types !== undefined && types !== 'null' && !(Array.isArray(types) && types.includes('null'))) return false;
  if (Object.hasOwn(schema, 'const') && schema['const'] !== null) return false;
  if (Array.isArray(schema['enum']) && !schema['enum'].includes(null)) return false;
  const target = refTarget(document, place, schema);
  if (target !== null && !acceptsNull(plan, target, depth + 1)) return false;
  const accepting = (keyword: string): number | null => {
    const list = schema[keyword];
    if (!Array.isArray(list)) return null;
    return list.filter((_, index) => acceptsNull(plan, below(place, keyword, index), depth + 1)).length;
  };
  const all = accepting('allOf');
  if (all !== null && all < (schema['allOf'] as unknown[]).length) return false;
  if (accepting('anyOf') === 0) return false;
  const one = accepting('oneOf');
  if (one !== null && one !== 1) return false;
  if (schema['not'] !== undefined && acceptsNull(plan, below(place, 'not'), depth + 1)) return false;
  if (schema['if'] === undefined) return true;
  const branch = acceptsNull(plan, below(place, 'if'), depth + 1) ? 'then' : 'else';
  return schema[branch] === undefined || acceptsNull(plan, below(place, branch), depth + 1);
}
