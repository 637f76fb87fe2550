import { randomUUID } from 'node:crypto';
import {
  type CompiledCatalogue,
  newestVersion,
  type ReceivedEvent,
  violations,
  writerValidator,
} from '../events/index.ts';
import { TestingError } from './testing-error.ts';

/** `GivenEvent`, when the type has been forgotten. */
export interface AnyGivenEvent {
  readonly type: string;
  readonly data: unknown;
  readonly aggregateId?: string;
  readonly sequence?: bigint;
  readonly id?: string;
  readonly time?: string;
  readonly traceparent?: string;
  readonly correlationid?: string;
  readonly causationid?: string;
}

/**
 * The event as a handler would get it, in the newest version of its type.
 *
 * @throws TestingError `EVENT_NOT_IN_CATALOGUE`, `EVENT_DATA_INVALID`: a consumer would never be given this
 */
export function receivedEvent(catalogue: CompiledCatalogue, given: AnyGivenEvent): ReceivedEvent {
  const { type, data, aggregateId = '1', sequence = 1n, id = randomUUID(), time = new Date().toISOString() } = given;
  const definition = catalogue.events[type];
  const writer = writerValidator(catalogue, type);
  if (definition === undefined || writer === null) {
    throw new TestingError('EVENT_NOT_IN_CATALOGUE', `The catalogue has no event type ${JSON.stringify(type)}.`);
  }
  const [violation] = violations(writer.validate, data, 1);
  if (violation !== undefined) {
    throw new TestingError(
      'EVENT_DATA_INVALID',
      `The data of ${type} breaks its schema, so that it could never have been appended: data${violation.pointer} ${violation.detail}.`,
    );
  }
  return {
    id,
    source: catalogue.source,
    type,
    schemaVersion: newestVersion(definition),
    aggregateType: definition.aggregate,
    aggregateId,
    sequence,
    time,
    traceparent: given.traceparent,
    correlationid: given.correlationid,
    causationid: given.causationid,
    data,
  };
}
