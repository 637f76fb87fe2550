import {
  type CompiledCatalogue,
  type EventMetadata,
  isAggregateIdLength,
  isStorableText,
  maxBytes,
  pointerToPath,
  validatorKey,
  violations,
  writerValidator,
} from '../events/index.ts';
import { KeysNotPreparedError, sealData, type SealingKeys } from '../sealing/index.ts';
import { isTraceparent } from '../telemetry/index.ts';
import { EventDataInvalidError, EventMalformedError, EventTooLargeError, EventTypeUnknownError } from './errors.ts';
import { jsonFault } from './json-fault.ts';

/** An event to append, before its type is known to fit. */
export interface AnyEvent {
  readonly type: string;
  readonly aggregate: { readonly type: string; readonly id: string };
  readonly data: unknown;
  /** At most 1,024 bytes together. */
  readonly metadata?: EventMetadata;
}

/** What SQL `outbox.append` takes for one event. */
export interface AppendRow {
  readonly id: string;
  readonly type: string;
  readonly schema_version: number;
  readonly aggregate_type: string;
  readonly aggregate_id: string;
  readonly data: unknown;
  readonly metadata?: EventMetadata;
}

/** Attributes around the data, at least. SQL counts exactly; this only spares the way for what is surely too much. */
const ENVELOPE_BYTES = 500;
const MAX_METADATA_BYTES = 1024;
const EVENT_KEYS = new Set(['type', 'aggregate', 'data', 'metadata']);
const AGGREGATE_KEYS = new Set(['type', 'id']);
const METADATA_KEYS = new Set(['traceparent', 'correlationid', 'causationid']);

/**
 * Checks one event and writes it as SQL takes it, sealed where its type has marks. Pure, but for the random bytes of sealing.
 *
 * @param keys those that were prepared
 * @throws EventMalformedError, EventTypeUnknownError, EventDataInvalidError, EventTooLargeError, KeysNotPreparedError, SealingRefusedError. The
 * message names the field, never its value.
 */
export function appendRow(
  catalogue: CompiledCatalogue,
  event: AnyEvent,
  index: number,
  id: string,
  keys?: SealingKeys,
): AppendRow {
  const where = `events[${index}]`;
  checkShape(event, where);
  const writer = writerValidator(catalogue, event.type);
  const definition = catalogue.events[event.type];
  if (writer === null || definition === undefined) {
    throw new EventTypeUnknownError(
      `${where}.type`,
      `${where}.type is not in the catalogue of ${JSON.stringify(catalogue.source)}. Nothing was appended.`,
    );
  }
  if (event.aggregate.type !== definition.aggregate) {
    malformed(`${where}.aggregate.type`, `must be '${definition.aggregate}' for events of type '${event.type}'`);
  }
  const fault = jsonFault(event.data);
  if (fault !== null) dataInvalid(`${where}.data${fault.path}`, fault.reason);
  const [violation] = violations(writer.validate, event.data, 1);
  if (violation !== undefined) dataInvalid(`${where}.data${pointerToPath(violation.pointer)}`, violation.detail);
  const data = sealedData(catalogue, event, { id, version: writer.version, where }, keys);
  checkSize(catalogue, definition.destinations, data, where);
  return {
    id,
    type: event.type,
    schema_version: writer.version,
    aggregate_type: event.aggregate.type,
    aggregate_id: event.aggregate.id,
    data,
    ...(event.metadata === undefined ? {} : { metadata: event.metadata }),
  };
}

function sealedData(
  catalogue: CompiledCatalogue,
  { type, aggregate, data }: AnyEvent,
  { id, version, where }: { readonly id: string; readonly version: number; readonly where: string },
  keys: SealingKeys | undefined,
): unknown {
  const sealed = catalogue.sealed.get(validatorKey(type, version));
  if (sealed === undefined) return data;
  if (keys === undefined) {
    throw new KeysNotPreparedError(
      `${where}.data of type '${type}' has to be sealed: append it with what outbox.prepare() answers. Nothing was appended.`,
    );
  }
  const place = {
    in: 'event',
    eventType: type,
    aggregateType: aggregate.type,
    aggregateId: aggregate.id,
    eventId: id,
  } as const;
  return sealData(data, sealed.plan, keys, place);
}

/** Callers without types can pass anything. */
function checkShape(event: AnyEvent, where: string): void {
  if (!isObject(event)) malformed(where, 'must be an object');
  checkKeys(event, EVENT_KEYS, where);
  if (typeof event.type !== 'string') malformed(`${where}.type`, 'must be a string');
  if (!isObject(event.aggregate)) malformed(`${where}.aggregate`, 'must be an object with type and id');
  checkKeys(event.aggregate, AGGREGATE_KEYS, `${where}.aggregate`);
  const { id } = event.aggregate;
  if (typeof id !== 'string') malformed(`${where}.aggregate.id`, 'must be a string');
  if (!isAggregateIdLength(id)) malformed(`${where}.aggregate.id`, 'must have 1 to 200 characters');
  if (!isStorableText(id)) malformed(`${where}.aggregate.id`, 'holds U+0000 or half a surrogate pair');
  if (event.metadata !== undefined) checkMetadata(event.metadata, `${where}.metadata`);
}

function checkMetadata(metadata: EventMetadata, where: string): void {
  if (!isObject(metadata)) malformed(where, 'must be an object');
  checkKeys(metadata, METADATA_KEYS, where);
  for (const [key, value] of Object.entries(metadata)) {
    if (typeof value !== 'string' || value === '' || !isStorableText(value)) {
      malformed(`${where}.${key}`, 'must be a string with at least one character, and without U+0000');
    }
  }
  if (metadata.traceparent !== undefined && !isTraceparent(metadata.traceparent)) {
    malformed(`${where}.traceparent`, 'must be a W3C trace context of version 00');
  }
  if (!fits(metadata)) malformed(where, `must have at most ${MAX_METADATA_BYTES} bytes together`);
}

function fits(metadata: EventMetadata): boolean {
  // PostgreSQL writes a blank behind each colon and comma.
  const blanks = 2 * METADATA_KEYS.size;
  return Buffer.byteLength(JSON.stringify(metadata)) + blanks <= MAX_METADATA_BYTES;
}

/** The row with the trace that it was appended in; as it is where it names one itself, or has no room: a trace is never worth an event. */
export function traced(row: AppendRow, traceparent: string | undefined): AppendRow {
  if (traceparent === undefined || row.metadata?.traceparent !== undefined) return row;
  const metadata = { ...row.metadata, traceparent };
  return fits(metadata) ? { ...row, metadata } : row;
}

function checkKeys(object: object, known: ReadonlySet<string>, where: string): void {
  // A misspelt key would else be dropped without a word.
  if (Object.keys(object).some((key) => !known.has(key))) {
    malformed(where, `has a key other than ${[...known].join(', ')}`);
  }
}

function checkSize(catalogue: CompiledCatalogue, destinations: readonly string[], data: unknown, where: string): void {
  const bytes = ENVELOPE_BYTES + Buffer.byteLength(JSON.stringify(data));
  for (const name of destinations) {
    const destination = catalogue.destinations[name];
    if (destination !== undefined && bytes > maxBytes(destination)) {
      throw new EventTooLargeError(
        `${where}.data`,
        `${where}.data is too large for destination '${name}': at least ${bytes} bytes with its envelope, ` +
          `at most ${maxBytes(destination)} fit. Keep the large part elsewhere and refer to it. Nothing was appended.`,
      );
    }
  }
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function malformed(field: string, reason: string): never {
  throw new EventMalformedError(field, `${field} ${reason}. Nothing was appended.`);
}

function dataInvalid(field: string, reason: string): never {
  throw new EventDataInvalidError(field, `${field} ${reason}. Nothing was appended.`);
}
