import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createAjv } from '../../../cli/generate/compile-schemas.ts';
import {
  openData,
  sealData,
  type SealingPlan,
  sealingPlan,
  SealingSchemaError,
  wireSchema,
} from '../../../shared/sealing/index.ts';
import { anyObjectSchema, type TestSchema, valueFor } from '../../support/any-schema.ts';
import { EVENT, testKey } from '../../support/sealing.ts';

const key = testKey('one');
/** The generated schemas are correct, and not always strict. */
const ajv = createAjv({ allErrors: false });
Object.assign(ajv.opts, { strictTypes: false, strictRequired: false, strictSchema: false, strictTuples: false });
const CHILDREN = ['items', 'additionalProperties'];

/** Marks some of what a schema describes, and closes most objects. */
function marked(schema: TestSchema, take: () => number): TestSchema {
  const result: TestSchema = { ...schema };
  const again = (child: unknown): unknown =>
    typeof child === 'object' && child !== null ? marked(child as TestSchema, take) : child;
  const properties = schema['properties'];
  if (properties !== undefined) {
    result['properties'] = Object.fromEntries(Object.entries(properties as object).map(([n, it]) => [n, again(it)]));
    if (take() < 8) result['additionalProperties'] = false;
  }
  for (const name of CHILDREN) if (name in result) result[name] = again(result[name]);
  for (const name of ['anyOf', 'oneOf']) {
    if (name in schema) result[name] = (schema[name] as unknown[]).map(again);
  }
  if (take() < 3) result['x-gdpr-sensitive'] = true;
  return result;
}

function planOf(schema: TestSchema): SealingPlan | null {
  try {
    const plan = sealingPlan(schema, { class: 'contact', subject: { kind: 'customer', id: '/who' } });
    if (plan !== null) wireSchema(plan);
    return plan;
  } catch (error) {
    if (error instanceof SealingSchemaError) return null;
    throw error;
  }
}

/** The values at marked places, found by reading the schema and not by the plan; every branch marks. */
function isMarkedAt(schema: unknown, pointer: readonly string[]): boolean {
  if (typeof schema !== 'object' || schema === null) return false;
  const at = schema as TestSchema;
  if (pointer.length === 0 && at['x-gdpr-sensitive'] === true) return true;
  const branches = [...((at['anyOf'] ?? []) as unknown[]), ...((at['oneOf'] ?? []) as unknown[])];
  if (branches.some((branch) => isMarkedAt(branch, pointer))) return true;
  const [name, ...rest] = pointer;
  if (name === undefined) return false;
  const properties = (at['properties'] ?? {}) as Record<string, unknown>;
  if (Object.hasOwn(properties, name)) return isMarkedAt(properties[name], rest);
  return isMarkedAt(at['additionalProperties'], rest) || isMarkedAt(at['items'], rest);
}

it('whatever the schema: its data is sealed at every marked place, passes the wire schema, and opens to what it was', () => {
  let sealed = 0;
  fc.assert(
    fc.property(fc.gen(), fc.infiniteStream(fc.integer({ min: 0, max: 9 })), (g, stream) => {
      const take = (): number => stream.next().value as number;
      const body = marked(anyObjectSchema(g, 3), take);
      const schema: TestSchema = {
        ...body,
        'x-gdpr-sensitive': false,
        additionalProperties: false,
        required: ['who', ...((body['required'] ?? []) as string[])],
        properties: { ...(body['properties'] as object), who: { type: 'string', minLength: 1 } },
      };
      const data = { ...(valueFor(g, { ...schema, required: body['required'] }) as object), who: 'K-1' };
      const plan = planOf(schema);
      if (plan === null) return;
      const check = (against: object, value: unknown): boolean => ajv.validate(against, value);
      if (!check(schema, data)) return;
      const wire = sealData(data, plan, () => key, EVENT);
      expect(check(wireSchema(plan), wire)).toBe(true);
      expect(openData(wire, plan, () => key, EVENT)).toStrictEqual(data);
      const look = (value: unknown, pointer: readonly string[]): void => {
        const isSealed = typeof value === 'string' && value.startsWith('sealed.1.');
        if (isSealed) sealed += 1;
        expect(isSealed).toBe(value !== null && isMarkedAt(schema, pointer));
        if (typeof value !== 'object' || value === null) return;
        for (const [name, child] of Object.entries(value)) look(child, [...pointer, name]);
      };
      look(wire, []);
    }),
    { numRuns: 300, seed: 7 },
  );
  // It would say nothing if all of them were refused.
  expect(sealed).toBeGreaterThan(50);
});
