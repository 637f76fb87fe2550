import { randomUUID } from 'node:crypto';
import {
  buildEnvelope,
  catalogueSchemas,
  compiledCatalogue,
  defineCatalogue,
  schemasFingerprint,
  type Validate,
} from '../../shared/events/index.ts';

/** A service with one aggregate, a counter, and three types of events; for tests of consumers. */
const definition = defineCatalogue({
  source: '/counters',
  destinations: { all: { kind: 'sqs-fifo', groupId: 'aggregate-id' } },
  events: {
    'counter.added': {
      aggregate: 'counter',
      versions: {
        1: {
          type: 'object',
          required: ['amount'],
          properties: { amount: { type: 'integer' }, secret: { type: 'string' } },
        },
      },
      whenParked: 'block',
      destinations: ['all'],
    },
    'counter.renamed': {
      aggregate: 'counter',
      versions: { 1: { type: 'object' } },
      whenParked: 'block',
      destinations: ['all'],
    },
  },
} as const);

const needsAmount: Validate = (data) => {
  const valid = Number.isInteger((data as { amount?: unknown }).amount);
  needsAmount.errors = valid
    ? null
    : [{ instancePath: '/amount', keyword: 'type', params: {}, message: 'must be integer' }];
  return valid;
};

export const counterCatalogue = compiledCatalogue(definition, {
  fingerprint: schemasFingerprint(catalogueSchemas(definition)),
  validators: { 'counter.added/1': needsAmount, 'counter.renamed/1': () => true },
});

export interface CounterEvent {
  readonly counter: string;
  readonly sequence: number | bigint;
  readonly id?: string;
  readonly type?: string;
  readonly version?: number;
  readonly data?: object;
  readonly source?: string;
  readonly time?: string;
  /** The run of a replay that it is sent in. */
  readonly replay?: number;
}

/** A message body. */
export function counterEnvelope(event: CounterEvent): string {
  return buildEnvelope({
    id: event.id ?? randomUUID(),
    source: event.source ?? '/counters',
    type: event.type ?? 'counter.added',
    schemaVersion: event.version ?? 1,
    aggregateType: 'counter',
    aggregateId: event.counter,
    sequence: BigInt(event.sequence),
    occurredAt: event.time ?? new Date().toISOString(),
    data: JSON.stringify(event.data ?? { amount: 1 }),
    metadata: null,
    ...(event.replay !== undefined && { replay: event.replay }),
  });
}
