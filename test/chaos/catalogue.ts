import { catalogueSchemas, compiledCatalogue, defineCatalogue, schemasFingerprint } from '../../shared/events/index.ts';

/** What an event does to its handlers; none: nothing. `dead`: its message is returned until it is a dead letter. */
export const HANDLER_FAULTS = ['fails', 'hangs', 'poison', 'dead'] as const;
export type HandlerFault = (typeof HANDLER_FAULTS)[number];

const version = {
  type: 'object',
  required: ['amount'],
  properties: {
    text: { type: 'string' },
    amount: { type: 'integer' },
    fault: { enum: [...HANDLER_FAULTS] },
  },
} as const;

/**
 * What the writers of a run write. `ledger` gets everything, so that a strict consumer can follow it. `notifications` gets the rarest type, so
 * its sequences have gaps. The other two are standard queues, which keep no order.
 */
const definition = defineCatalogue({
  source: '/chaos',
  destinations: {
    ledger: { kind: 'sqs-fifo', groupId: 'aggregate-id' },
    notifications: { kind: 'sqs-fifo', groupId: 'aggregate-id' },
    search: { kind: 'sqs' },
    analytics: { kind: 'sqs' },
  },
  events: {
    'account.noted': {
      aggregate: 'account',
      versions: { 1: version },
      whenParked: 'block',
      destinations: ['ledger'],
    },
    'account.changed': {
      aggregate: 'account',
      versions: { 1: version },
      whenParked: 'block',
      destinations: ['ledger', 'search', 'analytics'],
    },
    'account.alerted': {
      aggregate: 'account',
      versions: { 1: version },
      whenParked: 'block',
      destinations: ['ledger', 'notifications'],
    },
  },
} as const);

export const catalogue = compiledCatalogue(definition, {
  fingerprint: schemasFingerprint(catalogueSchemas(definition)),
  validators: {
    'account.noted/1': () => true,
    'account.changed/1': () => true,
    'account.alerted/1': () => true,
  },
});

export type ConsumerName = keyof typeof definition.destinations;

/** Each reads the queue of its name. */
export const CONSUMERS = ['ledger', 'notifications', 'search', 'analytics'] as const satisfies readonly ConsumerName[];

export const MODES = {
  ledger: 'strict',
  notifications: 'any',
  search: 'latest',
  analytics: 'any',
} as const satisfies Record<ConsumerName, string>;

/** Destinations where first occurrences must come in order. */
export const ORDERED: ReadonlySet<string> = new Set(
  Object.entries(definition.destinations).flatMap(([name, { kind }]) => (kind === 'sqs-fifo' ? [name] : [])),
);

/** The consumers that a type goes to. */
export function consumersOf(type: string): readonly ConsumerName[] {
  return (
    (definition.events as Record<string, { readonly destinations: readonly ConsumerName[] }>)[type]?.destinations ?? []
  );
}
