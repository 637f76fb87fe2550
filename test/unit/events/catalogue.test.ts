import { describe, expect, expectTypeOf, it } from 'vitest';
import {
  type Catalogue,
  CatalogueError,
  catalogueRows,
  compiledCatalogue,
  defineCatalogue,
  type EventData,
  newestVersion,
} from '../../../shared/events/index.ts';

const schema = {
  type: 'object',
  required: ['amount'],
  properties: { amount: { type: 'integer' }, note: { type: 'string' } },
} as const;

const good = {
  source: '/tests',
  destinations: {
    ledger: { kind: 'sqs-fifo', groupId: 'aggregate-id' },
    bus: { kind: 'eventbridge' },
  },
  events: {
    'thing.made': {
      aggregate: 'thing',
      versions: { 1: schema, 2: { type: 'object', required: ['size'], properties: { size: { type: 'string' } } } },
      whenParked: 'block',
      destinations: ['ledger', 'bus'],
    },
  },
} as const satisfies Catalogue;

type Event = (typeof good)['events']['thing.made'];

/** The catalogue with its one event changed. */
function withEvent(change: Partial<Record<keyof Event, unknown>>, type = 'thing.made'): Catalogue {
  return { ...good, events: { [type]: { ...good.events['thing.made'], ...change } } } as unknown as Catalogue;
}

function withDestination(destination: unknown, name = 'ledger'): Catalogue {
  return { ...good, destinations: { [name]: destination, bus: { kind: 'eventbridge' } } } as unknown as Catalogue;
}

function codeOf(catalogue: Catalogue): string {
  try {
    defineCatalogue(catalogue);
    return 'accepted';
  } catch (error) {
    if (error instanceof CatalogueError) return error.code;
    throw error;
  }
}

describe('defineCatalogue', () => {
  it('returns what it was given, frozen to the last schema', () => {
    const catalogue = defineCatalogue(structuredClone(good));
    expect(catalogue).toEqual(good);
    expect(Object.isFrozen(catalogue.events['thing.made'].versions[1].properties.amount)).toBe(true);
  });

  it.each<[string, Catalogue, string]>([
    ['an empty source', { ...good, source: '' }, 'CATALOGUE_NAME'],
    ['a source with a blank', { ...good, source: '/a b' }, 'CATALOGUE_NAME'],
    ['a source that ends in a slash', { ...good, source: '/a/' }, 'CATALOGUE_NAME'],
    ['a type in upper case', withEvent({}, 'Thing.made'), 'CATALOGUE_NAME'],
    ['a type with an underscore', withEvent({}, 'thing_made'), 'CATALOGUE_NAME'],
    ['a type of 129 characters', withEvent({}, 'a'.repeat(129)), 'CATALOGUE_NAME'],
    ["a type under the outbox's own names", withEvent({}, 'outbox.skipped'), 'CATALOGUE_NAME'],
    ['an aggregate type with a colon', withEvent({ aggregate: 'a:b' }), 'CATALOGUE_NAME'],
    ['a destination with a dot', withDestination({ kind: 'sqs' }, 'led.ger'), 'CATALOGUE_NAME'],
    ['no version', withEvent({ versions: {} }), 'CATALOGUE_VERSION'],
    ['a version gap', withEvent({ versions: { 1: schema, 3: schema } }), 'CATALOGUE_VERSION'],
    ['versions from 0', withEvent({ versions: { 0: schema, 1: schema } }), 'CATALOGUE_VERSION'],
    ['a policy that is none', withEvent({ whenParked: 'drop' }), 'CATALOGUE_POLICY'],
    ['an unknown destination', withEvent({ destinations: ['lodger'] }), 'CATALOGUE_ROUTE'],
    ["a name of Object's prototype as a destination", withEvent({ destinations: ['constructor'] }), 'CATALOGUE_ROUTE'],
    ['a destination named twice', withEvent({ destinations: ['bus', 'bus'] }), 'CATALOGUE_ROUTE'],
    ['a kind that is none', withDestination({ kind: 'kafka' }), 'CATALOGUE_DESTINATION'],
    ['a FIFO queue without a group id', withDestination({ kind: 'sqs-fifo' }), 'CATALOGUE_DESTINATION'],
    ['more bytes than SQS takes', withDestination({ kind: 'sqs', maxBytes: 1_048_577 }), 'CATALOGUE_DESTINATION'],
    ['fewer bytes than an envelope', withDestination({ kind: 'sqs', maxBytes: 1023 }), 'CATALOGUE_DESTINATION'],
    ['a boolean schema', withEvent({ versions: { 1: true } }), 'CATALOGUE_SCHEMA'],
    ['a schema of an array', withEvent({ versions: { 1: { type: 'array' } } }), 'CATALOGUE_SCHEMA'],
    [
      'a schema of another dialect',
      withEvent({ versions: { 1: { ...schema, $schema: 'http://json-schema.org/draft-07/schema#' } } }),
      'CATALOGUE_SCHEMA',
    ],
  ])('refuses %s', (_, catalogue, code) => {
    expect(codeOf(catalogue)).toBe(code);
  });

  it('case 56: refuses two aggregate types on one queue whose groups are the bare ids', () => {
    const event = { ...good.events['thing.made'], aggregate: 'payment' };
    const two = { ...good, events: { ...good.events, 'payment.made': event } };
    expect(codeOf(two)).toBe('CATALOGUE_DESTINATION');
    const ledger = { kind: 'sqs-fifo', groupId: 'aggregate-type-and-id' } as const;
    expect(codeOf({ ...two, destinations: { ...two.destinations, ledger } })).toBe('accepted');
  });

  it('keeps an event that goes nowhere', () => {
    expect(codeOf(withEvent({ destinations: [] }))).toBe('accepted');
  });

  it('types the data of each version by its schema, the newest by default', () => {
    const catalogue = defineCatalogue(good);
    expectTypeOf<EventData<typeof catalogue, 'thing.made', 1>['amount']>().toEqualTypeOf<number>();
    expectTypeOf<EventData<typeof catalogue, 'thing.made'>['size']>().toEqualTypeOf<string>();
    // @ts-expect-error -- there is no version 3
    expectTypeOf<EventData<typeof catalogue, 'thing.made', 3>>().not.toBeAny();
    expect(newestVersion(catalogue.events['thing.made'])).toBe(2);
  });
});

describe('catalogueRows', () => {
  it('lists each version, and the limits that apply', () => {
    const type = { type: 'thing.made', aggregate_type: 'thing', when_parked: 'block', destinations: ['ledger', 'bus'] };
    expect(catalogueRows(defineCatalogue(good))).toEqual({
      source: '/tests',
      event_types: [
        { ...type, schema_version: 1 },
        { ...type, schema_version: 2 },
      ],
      destinations: [
        { name: 'ledger', kind: 'sqs-fifo', max_bytes: 1_048_576, group_id: 'aggregate-id' },
        { name: 'bus', kind: 'eventbridge', max_bytes: 999_743, group_id: 'aggregate-id' },
      ],
    });
  });
});

describe('compiledCatalogue', () => {
  it('refuses validators that were made from other schemas', () => {
    const stale = { fingerprint: 'of yesterday', validators: {} };
    expect(() => compiledCatalogue(good, stale)).toThrow(expect.objectContaining({ code: 'CATALOGUE_STALE' }));
  });
});
