import { CatalogueError } from './catalogue-error.ts';
import { type Sensitive, SealingSchemaError } from '../sealing/index.ts';
import { isDestinationName, isSource, isTypeName, RESERVED_TYPE_PREFIX } from './names.ts';
import type { DataOf, EventSchema } from './schema.ts';
import { sealedSchema } from './sealed-schema.ts';
import { checkUpcasters, type Older, type Upcaster } from './upcaster.ts';

/** SQS refuses a message over this many bytes, attributes counted. */
const SQS_MAX_BYTES = 1_048_576;
/** EventBridge takes less than 1 MB for a whole request and counts type and source (128 bytes each at most) once more. */
const EVENTBRIDGE_MAX_BYTES = 999_999 - 2 * 128;

/** What a FIFO queue keeps in order: `MessageGroupId` is the aggregate's id, or `type/id`. */
export type GroupId = 'aggregate-id' | 'aggregate-type-and-id';

/** Where events go. Fixed at the first deployment: a changed group id would break the order of what is in flight. */
export type Destination =
  | {
      readonly kind: 'sqs-fifo';
      /** A queue that carries more than one aggregate type needs `aggregate-type-and-id`. */
      readonly groupId: GroupId;
      /** The queue's `MaximumMessageSize` in bytes. Default 1,048,576. */
      readonly maxBytes?: number;
    }
  | { readonly kind: 'sqs'; readonly maxBytes?: number }
  | { readonly kind: 'eventbridge'; readonly maxBytes?: number };

/** What happens behind an event that can never be published: wait (`block`), or go on without it (`skip`). */
export type WhenParked = 'block' | 'skip';

export interface EventDefinition {
  /** Type of the aggregate whose history this event belongs to. */
  readonly aggregate: string;
  /** Every schema that this event was ever written with, by version: 1, 2, 3 … Writers use the highest. */
  readonly versions: { readonly [version: number]: EventSchema };
  /** Class and person of the values that the schemas mark with `x-gdpr-sensitive: true`. */
  readonly sensitive?: Sensitive;
  /** By version, the step to the next: consumers' handlers see the newest only. Without gaps up to the newest. */
  readonly upcast?: { readonly [from: number]: Upcaster };
  /** What consumers do with versions below the oldest step. Default `return`, which loses nothing. */
  readonly older?: Older;
  readonly whenParked: WhenParked;
  /** Names of the destinations that receive it. None: it is kept in the outbox only. */
  readonly destinations: readonly string[];
}

/** All event types of one service. */
export interface Catalogue {
  /** CloudEvents `source` of all its events, such as `/invoices`. */
  readonly source: string;
  readonly destinations: { readonly [name: string]: Destination };
  readonly events: { readonly [type: string]: EventDefinition };
}

/** Names of a catalogue's event types. */
export type EventType<C extends Catalogue> = keyof C['events'] & string;

/** Type of the newest version: the highest `n` such that 1 … n are all keys. */
export type NewestVersion<Versions, Counted extends readonly unknown[] = [unknown]> = number extends keyof Versions
  ? number
  : Counted['length'] extends keyof Versions
    ? [...Counted, unknown]['length'] extends keyof Versions
      ? NewestVersion<Versions, [...Counted, unknown]>
      : Counted['length']
    : never;

/** Type of the data of `Type` at `Version`; without a version, at the newest. */
export type EventData<
  C extends Catalogue,
  Type extends EventType<C>,
  Version extends keyof C['events'][Type]['versions'] = NewestVersion<C['events'][Type]['versions']>,
> = DataOf<C['events'][Type]['versions'][Version]>;

/** The version that writers use. */
export function newestVersion(event: EventDefinition): number {
  return Object.keys(event.versions).length;
}

/** Bytes that one message of this destination may have. */
export function maxBytes(destination: Destination): number {
  return destination.maxBytes ?? kindMaxBytes(destination.kind);
}

function kindMaxBytes(kind: Destination['kind']): number {
  return kind === 'eventbridge' ? EVENTBRIDGE_MAX_BYTES : SQS_MAX_BYTES;
}

/**
 * Checks the definition of a service's events and returns it, frozen through and through.
 *
 * ```ts
 * export const definition = defineCatalogue({
 *   source: '/invoices',
 *   destinations: { ledger: { kind: 'sqs-fifo', groupId: 'aggregate-id' } },
 *   events: {
 *     'invoice.issued': {
 *       aggregate: 'invoice',
 *       versions: { 1: { type: 'object', required: ['totalMinor'], properties: { totalMinor: { type: 'integer' } } } },
 *       whenParked: 'block',
 *       destinations: ['ledger'],
 *     },
 *   },
 * });
 * ```
 *
 * @throws CatalogueError (`CATALOGUE_NAME`, `CATALOGUE_VERSION`, `CATALOGUE_UPCAST`, `CATALOGUE_POLICY`, `CATALOGUE_DESTINATION`,
 * `CATALOGUE_ROUTE`, `CATALOGUE_SCHEMA`, `CATALOGUE_SENSITIVE`) at the first fault, naming the entry. Schemas are compiled later, by the generator.
 */
export function defineCatalogue<const C extends Catalogue>(definition: C): C {
  if (!isSource(definition.source)) {
    throw new CatalogueError(
      'CATALOGUE_NAME',
      `source ${quote(definition.source)} must be 1-128 of A-Z a-z 0-9 . _ ~ : / - and not end in a slash.`,
    );
  }
  for (const [name, destination] of Object.entries(definition.destinations)) checkDestination(name, destination);
  for (const [type, event] of Object.entries(definition.events)) checkEvent(definition, type, event);
  for (const [name, destination] of Object.entries(definition.destinations)) {
    checkGroups(definition, name, destination);
  }
  return deepFreeze(definition);
}

function checkDestination(name: string, destination: Destination): void {
  if (!isDestinationName(name)) {
    throw new CatalogueError(
      'CATALOGUE_NAME',
      `destination ${quote(name)} must be 1-63 of a-z 0-9 - and start with a letter.`,
    );
  }
  switch (destination.kind) {
    case 'sqs-fifo':
      if (destination.groupId !== 'aggregate-id' && destination.groupId !== 'aggregate-type-and-id') {
        throw new CatalogueError(
          'CATALOGUE_DESTINATION',
          `destination ${quote(name)}: groupId must be 'aggregate-id' or 'aggregate-type-and-id'.`,
        );
      }
      break;
    case 'sqs':
    case 'eventbridge':
      break;
    default: {
      const kind: never = destination;
      throw new CatalogueError(
        'CATALOGUE_DESTINATION',
        `destination ${quote(name)}: kind must be 'sqs-fifo', 'sqs' or 'eventbridge', not ${quote((kind as Destination).kind)}.`,
      );
    }
  }
  const limit = kindMaxBytes(destination.kind);
  const bytes = maxBytes(destination);
  if (!Number.isInteger(bytes) || bytes < 1024 || bytes > limit) {
    throw new CatalogueError(
      'CATALOGUE_DESTINATION',
      `destination ${quote(name)}: maxBytes must be a whole number from 1024 to ${limit}.`,
    );
  }
}

function checkEvent(catalogue: Catalogue, type: string, event: EventDefinition): void {
  const where = `event ${quote(type)}`;
  if (!isTypeName(type)) {
    throw new CatalogueError('CATALOGUE_NAME', `${where} must be 1-128 of a-z 0-9 . - and start with a letter.`);
  }
  if (type.startsWith(RESERVED_TYPE_PREFIX)) {
    throw new CatalogueError('CATALOGUE_NAME', `${where}: names under '${RESERVED_TYPE_PREFIX}' are the outbox's own.`);
  }
  if (!isTypeName(event.aggregate)) {
    throw new CatalogueError(
      'CATALOGUE_NAME',
      `${where}: aggregate ${quote(event.aggregate)} must be 1-128 of a-z 0-9 . - and start with a letter.`,
    );
  }
  if (event.whenParked !== 'block' && event.whenParked !== 'skip') {
    throw new CatalogueError('CATALOGUE_POLICY', `${where}: whenParked must be 'block' or 'skip'.`);
  }
  const versions = Object.keys(event.versions);
  if (versions.length === 0 || versions.some((version, index) => version !== String(index + 1))) {
    throw new CatalogueError(
      'CATALOGUE_VERSION',
      `${where}: versions must be 1, 2, 3 … without a gap, not ${versions.join(', ') || 'none'}. ` +
        'Events written with an older version are still stored, so none can be taken away.',
    );
  }
  for (const [version, schema] of Object.entries(event.versions)) {
    checkSchema(`${where} version ${version}`, schema);
    checkMarks(`${where} version ${version}`, schema, event.sensitive);
  }
  checkUpcasters(where, event);
  checkRoutes(catalogue, where, event.destinations);
}

const DIALECT = 'https://json-schema.org/draft/2020-12/schema';

function checkSchema(where: string, schema: EventSchema): void {
  if (typeof schema !== 'object' || schema === null || schema.type !== 'object') {
    throw new CatalogueError('CATALOGUE_SCHEMA', `${where}: the schema must be an object with type 'object'.`);
  }
  const dialect = schema['$schema'];
  if (dialect !== undefined && dialect !== DIALECT) {
    throw new CatalogueError('CATALOGUE_SCHEMA', `${where}: $schema must be ${DIALECT} or be left out.`);
  }
}

function checkMarks(where: string, schema: EventSchema, sensitive: Sensitive | undefined): void {
  try {
    // What was looked at is what stays.
    sealedSchema(deepFreeze(schema), deepFreeze(sensitive));
  } catch (cause) {
    if (!(cause instanceof SealingSchemaError)) throw cause;
    throw new CatalogueError('CATALOGUE_SENSITIVE', `${where}: ${cause.code} at ${cause.message}`, { cause });
  }
}

function checkRoutes(catalogue: Catalogue, where: string, destinations: readonly string[]): void {
  const seen = new Set<string>();
  for (const name of destinations) {
    if (!Object.hasOwn(catalogue.destinations, name)) {
      const known = Object.keys(catalogue.destinations).map(quote).join(', ') || 'none';
      throw new CatalogueError('CATALOGUE_ROUTE', `${where}: unknown destination ${quote(name)}. Defined: ${known}.`);
    }
    if (seen.has(name)) {
      throw new CatalogueError('CATALOGUE_ROUTE', `${where}: destination ${quote(name)} is named twice.`);
    }
    seen.add(name);
  }
}

/** Invoice 42 and payment 42 would share a group, and one that waits would hold the other. */
function checkGroups(catalogue: Catalogue, name: string, destination: Destination): void {
  if (destination.kind !== 'sqs-fifo' || destination.groupId !== 'aggregate-id') return;
  const aggregates = new Set(
    Object.values(catalogue.events)
      .filter((event) => event.destinations.includes(name))
      .map((event) => event.aggregate),
  );
  if (aggregates.size > 1) {
    throw new CatalogueError(
      'CATALOGUE_DESTINATION',
      `destination ${quote(name)} receives several aggregate types (${[...aggregates].map(quote).join(', ')}): ` +
        "its groupId must be 'aggregate-type-and-id', or equal ids of two types would wait for each other.",
    );
  }
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const child of Object.values(value)) deepFreeze(child);
  }
  return value;
}

function quote(text: unknown): string {
  return JSON.stringify(text) ?? String(text);
}
