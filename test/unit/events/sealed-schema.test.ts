import { expect, it } from 'vitest';
import type { Sensitive } from '../../../shared/sealing/index.ts';
import { sealedSchema } from '../../../shared/events/sealed-schema.ts';

const declared: Sensitive = Object.freeze({ class: 'contact', subject: Object.freeze({ kind: 'person', id: '/id' }) });

function schema(name: object) {
  return {
    type: 'object' as const,
    required: ['id'],
    additionalProperties: false,
    properties: { id: { type: 'string' }, name },
  };
}

function fixedSchema() {
  const fixed = schema(Object.freeze({ type: 'string', 'x-gdpr-sensitive': true }));
  for (const part of [fixed.required, fixed.properties.id, fixed.properties, fixed]) Object.freeze(part);
  return fixed;
}

it('works out once how a schema is sealed that nobody can change', () => {
  const fixed = fixedSchema();
  const sealed = sealedSchema(fixed, declared);
  expect(sealed?.plan.nodes).toHaveLength(2);
  expect(sealedSchema(fixed, declared)).toBe(sealed);
});

it('reads a schema again that can have changed', () => {
  const free = schema({ type: 'string', 'x-gdpr-sensitive': true });
  expect(sealedSchema(free, declared)).not.toBeNull();
  free.properties.name = { type: 'string' };
  expect(sealedSchema(free, declared)).toBeNull();
});

it('reads a schema again of which a part can have changed, and one that was fixed afterwards', () => {
  const shallow = Object.freeze(schema({ type: 'string', 'x-gdpr-sensitive': true }));
  expect(sealedSchema(shallow, declared)).not.toBeNull();
  shallow.properties.name = Object.freeze({ type: 'string' });
  for (const part of [shallow.required, shallow.properties.id, shallow.properties]) Object.freeze(part);
  expect(sealedSchema(shallow, declared)).toBeNull();
});

it('reads it again for marks that declare another class', () => {
  const fixed = fixedSchema();
  const classOf = (given: Sensitive): unknown =>
    sealedSchema(fixed, given)?.plan.nodes.find(({ mark }) => mark)?.mark?.class;
  expect([declared, Object.freeze({ ...declared, class: 'tax' })].map(classOf)).toEqual(['contact', 'tax']);
});
