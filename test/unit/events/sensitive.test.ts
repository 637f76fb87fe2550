import { describe, expect, it } from 'vitest';
import { compileSchemas } from '../../../cli/generate/compile-schemas.ts';
import { type Catalogue, catalogueRows, catalogueSchemas, defineCatalogue } from '../../../shared/events/index.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';

const marked = { type: 'string', 'x-gdpr-sensitive': true } as const;
const versions = {
  1: { type: 'object', additionalProperties: false, required: ['id'], properties: { id: { type: 'string' } } },
  2: {
    type: 'object',
    additionalProperties: false,
    required: ['id'],
    properties: { id: { type: 'string' }, name: marked },
  },
} as const;

const definition = (more: Partial<Catalogue['events'][string]> = {}): Catalogue => ({
  source: '/test',
  destinations: {},
  events: {
    'person.named': {
      aggregate: 'person',
      whenParked: 'block',
      destinations: [],
      versions,
      sensitive: { class: 'contact', subject: { kind: 'person', id: '/id' } },
      ...more,
    },
  },
});

describe('a catalogue with marks of personal data', () => {
  it('has a wire schema for each version that marks something', async () => {
    const schemas = catalogueSchemas(defineCatalogue(definition()));
    expect(Object.keys(schemas)).toEqual(['person.named/1', 'person.named/2', 'person.named/2/wire']);
    const { javascript } = await compileSchemas(schemas, { allErrors: false, madeFrom: 'test.ts' });
    expect(javascript).toContain('person.named/2/wire');
  });

  it('knows by version what has to be sealed, in code and in the rows that are installed', () => {
    const { sealed } = compileCatalogue(defineCatalogue(definition()));
    expect([...sealed.keys()]).toEqual(['person.named/2']);
    const rows = catalogueRows(definition()).event_types.map((row) => row.sealed_paths);
    expect(rows).toMatchObject([
      undefined,
      { nodes: [{ properties: { id: null, name: 1 } }, { sealed: expect.any(String) }] },
    ]);
  });

  it('is stale when the class of a mark changes', () => {
    const other = definition({ sensitive: { class: 'tax', subject: { kind: 'person', id: '/id' } } });
    expect(JSON.stringify(catalogueSchemas(other))).not.toBe(JSON.stringify(catalogueSchemas(definition())));
  });

  it('says type, version, code and place of a mark that cannot be kept', () => {
    const call = (): unknown => defineCatalogue({ ...definition({ sensitive: undefined as never }) });
    expect(call).toThrow(
      expect.objectContaining({
        code: 'CATALOGUE_SENSITIVE',
        message: expect.stringMatching(/"person\.named" version 2: SEALING_MARK_INVALID at #\/properties\/name: /),
        cause: expect.objectContaining({ code: 'SEALING_MARK_INVALID' }),
      }),
    );
  });
});
