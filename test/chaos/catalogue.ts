import { catalogueSchemas, compiledCatalogue, defineCatalogue, schemasFingerprint } from '../../shared/events/index.ts';

/**
 * What the writers of a run write. `ledger` gets everything, so that a strict consumer can follow it; `search` gets one type of two, the rarer one, so
 * its sequences have gaps.
 */
const definition = defineCatalogue({
  source: '/chaos',
  destinations: {
    ledger: { kind: 'sqs-fifo', groupId: 'aggregate-id' },
    search: { kind: 'sqs-fifo', groupId: 'aggregate-id' },
  },
  events: {
    'account.changed': {
      aggregate: 'account',
      versions: { 1: { type: 'object', properties: { text: { type: 'string' } } } },
      whenParked: 'block',
      destinations: ['ledger', 'search'],
    },
    'account.noted': {
      aggregate: 'account',
      versions: { 1: { type: 'object', properties: { text: { type: 'string' } } } },
      whenParked: 'block',
      destinations: ['ledger'],
    },
  },
} as const);

export const catalogue = compiledCatalogue(definition, {
  fingerprint: schemasFingerprint(catalogueSchemas(definition)),
  validators: { 'account.changed/1': () => true, 'account.noted/1': () => true },
});

export const DESTINATIONS = Object.keys(definition.destinations);
