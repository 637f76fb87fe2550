import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  CatalogueError,
  type EventDefinition,
  type EventSchema,
  defineCatalogue,
  upcastData,
  type Upcaster,
  upcaster,
} from '../../../shared/events/index.ts';
import { compileCatalogue } from '../../support/compile-catalogue.ts';

const made1 = {
  type: 'object',
  additionalProperties: false,
  required: ['total'],
  properties: { total: { type: 'integer' } },
} as const;
const made2 = {
  type: 'object',
  additionalProperties: false,
  required: ['total', 'currency'],
  properties: { total: { type: 'integer' }, currency: { type: 'string' } },
} as const;
const made3 = {
  type: 'object',
  additionalProperties: false,
  required: ['amount'],
  properties: {
    amount: {
      type: 'object',
      additionalProperties: false,
      required: ['value', 'currency'],
      properties: { value: { type: 'integer' }, currency: { enum: ['EUR', 'TRY'] } },
    },
  },
} as const;

const toMade2 = upcaster(made1, made2)((data) => ({ ...data, currency: 'EUR' }));
const toMade3 = upcaster(
  made2,
  made3,
)((data) => ({
  amount: { value: data.total, currency: data.currency === 'TRY' ? 'TRY' : 'EUR' },
}));

function catalogueWith(change: Partial<EventDefinition>) {
  const made: EventDefinition = {
    aggregate: 'thing',
    versions: { 1: made1, 2: made2, 3: made3 },
    whenParked: 'block',
    destinations: [],
    ...change,
  };
  return defineCatalogue({ source: '/tests', destinations: {}, events: { 'thing.made': made } });
}

function faultOf(change: Partial<EventDefinition>): string {
  try {
    catalogueWith(change);
    return 'accepted';
  } catch (error) {
    if (error instanceof CatalogueError) return `${error.code}: ${error.message}`;
    throw error;
  }
}

describe('upcasters of a definition', () => {
  it.each<[string, Partial<EventDefinition>]>([
    ['a whole chain', { upcast: { 1: toMade2, 2: toMade3 } }],
    ['a chain that begins later', { upcast: { 2: toMade3 } }],
    ['none', {}],
    ['a policy for what is older', { upcast: { 2: toMade3 }, older: 'ignore' }],
  ])('may be %s', (_, change) => {
    expect(faultOf(change)).toBe('accepted');
  });

  it.each<[string, Partial<EventDefinition>, RegExp]>([
    ['a missing link', { upcast: { 1: toMade2 } }, /"thing\.made": the upcaster from version 2 to 3 is missing/],
    ['one for the newest version', { upcast: { 2: toMade3, 3: toMade3 } }, /version 3 is the newest/],
    ['one for a version that does not exist', { upcast: { 1: toMade2, 2: toMade3, 7: toMade3 } }, /names version "7"/],
    ['one for a version that is no number', { upcast: { one: toMade2 } as never }, /names version "one"/],
    ['one between other schemas', { upcast: { 2: toMade2 } }, /from version 2 to 3 was made for other schemas/],
    ['a policy that is none', { older: 'drop' as never }, /older must be 'return' or 'ignore'/],
  ])('refuses %s', (_, change, message) => {
    expect(faultOf(change)).toMatch(/^CATALOGUE_UPCAST: /);
    expect(faultOf(change)).toMatch(message);
  });

  it('are typed by the schemas on both sides', () => {
    // @ts-expect-error version 1 has no such field
    upcaster(made1, made2)((data) => ({ total: data.sum, currency: 'EUR' }));
    // @ts-expect-error version 2 needs a currency
    upcaster(made1, made2)((data) => ({ total: data.total }));
    // @ts-expect-error the answer must be there, not on its way
    upcaster(made1, made2)(async (data) => ({ ...data, currency: 'EUR' }));
    expect(toMade2.apply({ total: 1 })).toEqual({ total: 1, currency: 'EUR' });
  });
});

describe('upcastData', () => {
  const catalogue = compileCatalogue(catalogueWith({ upcast: { 1: toMade2, 2: toMade3 } }));
  const newest = { amount: { value: 5, currency: 'EUR' } };

  it.each([
    [1, { total: 5 }],
    [2, { total: 5, currency: 'EUR' }],
    [3, newest],
  ])('brings version %d up to the newest', (version, data) => {
    expect(upcastData(catalogue, 'thing.made', version, data)).toEqual({ ok: true, version: 3, data: newest });
  });

  it('takes any number of steps, from any version, each once and in order', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), fc.nat(3), (newestVersion, start) => {
        const written = 1 + (start % newestVersion);
        const schemas = Array.from({ length: newestVersion }, (_, index): EventSchema => ({
          type: 'object',
          properties: { steps: { type: 'array', maxItems: index } },
        }));
        const at = (version: number) => schemas[version - 1] as EventSchema;
        const versions = Object.fromEntries(schemas.map((schema, index) => [index + 1, schema]));
        const upcast: Record<number, Upcaster> = {};
        for (let from = 1; from < newestVersion; from += 1) {
          upcast[from] = upcaster(
            at(from),
            at(from + 1),
          )((data) => ({
            steps: [...(data['steps'] as number[]), from],
          }));
        }
        const read = upcastData(compileCatalogue(catalogueWith({ versions, upcast })), 'thing.made', written, {
          steps: [],
        });
        const steps = Array.from({ length: newestVersion - written }, (_, index) => written + index);
        expect(read).toEqual({ ok: true, version: newestVersion, data: { steps } });
      }),
      { numRuns: 10 },
    );
  });

  it.each([
    ['an older one than the first', { upcast: { 2: toMade3 } }, 1],
    ['one where none has an upcaster', {}, 2],
    ['one that the catalogue does not hold', {}, 4],
  ])('does not guess: %s is too old', (_, change, version) => {
    const read = upcastData(compileCatalogue(catalogueWith(change)), 'thing.made', version, { canary: 1 });
    const reason = `no upcaster leads from version ${version} of thing.made to 3`;
    expect(read).toEqual({ ok: false, fault: 'too-old', reason });
  });

  it.each<[string, unknown, RegExp]>([
    ['breaks the next schema', { total: 'canary', currency: 'EUR' }, /: data\/total must be integer$/],
    ['is nothing', undefined, /did not answer a plain object$/],
    ['is a promise', Promise.resolve({ total: 1, currency: 'EUR' }), /did not answer a plain object$/],
    ['is a list', [], /did not answer a plain object$/],
  ])('refuses an answer that %s, and names type and versions but no value', (_, answer, rule) => {
    const wrong: Upcaster = { from: made1, to: made2, apply: () => answer };
    const broken = compileCatalogue(catalogueWith({ upcast: { 1: wrong, 2: toMade3 } }));
    const read = upcastData(broken, 'thing.made', 1, { total: 1 });
    expect(read).toEqual({ ok: false, fault: 'invalid', reason: expect.stringMatching(rule) as string });
    expect(JSON.stringify(read)).toContain('the upcaster of thing.made from version 1 to 2');
    expect(JSON.stringify(read)).not.toContain('canary');
  });

  it('says which upcaster threw, and keeps what it threw apart', () => {
    const cause = new Error('canary');
    const apply = (): never => {
      throw cause;
    };
    const broken = compileCatalogue(catalogueWith({ upcast: { 1: { from: made1, to: made2, apply }, 2: toMade3 } }));
    const reason = 'the upcaster of thing.made from version 1 to 2 threw';
    expect(upcastData(broken, 'thing.made', 1, { total: 1 })).toEqual({ ok: false, fault: 'threw', reason, cause });
  });
});
