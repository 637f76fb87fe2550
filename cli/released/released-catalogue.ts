import { type Catalogue, CatalogueError, type Destination, type EventDefinition } from '../../shared/events/index.ts';
import { type CanonicalSchema, canonicalSchema } from './canonical-schema.ts';

/** What of a catalogue others rely on once it is released: writers, stored events, queues, consumers. */
export interface ReleasedCatalogue {
  readonly source: string;
  readonly destinations: { readonly [name: string]: ReleasedDestination };
  readonly events: { readonly [type: string]: ReleasedEvent };
  /** Breaking changes that were released all the same, oldest first, and why. */
  readonly exceptions: readonly { readonly reason: string; readonly changes: readonly string[] }[];
}

export interface ReleasedDestination {
  readonly kind: Destination['kind'];
  readonly groupId?: string;
}

export interface ReleasedEvent {
  readonly aggregate: string;
  readonly destinations: readonly string[];
  /** Versions from which an upcaster leads to the next. */
  readonly upcast: readonly number[];
  /** Class and person of the marks that do not name their own. */
  readonly sensitive?: EventDefinition['sensitive'];
  readonly versions: { readonly [version: string]: CanonicalSchema };
}

/** A catalogue in the form in which it is released. Lists are sorted, so that equal catalogues are equal texts. */
export function releasedForm(
  catalogue: Catalogue,
  exceptions: ReleasedCatalogue['exceptions'] = [],
): ReleasedCatalogue {
  return {
    source: catalogue.source,
    destinations: mapSorted(catalogue.destinations, (destination) =>
      destination.kind === 'sqs-fifo'
        ? { kind: destination.kind, groupId: destination.groupId }
        : { kind: destination.kind },
    ),
    events: mapSorted(catalogue.events, (event) => ({
      aggregate: event.aggregate,
      destinations: event.destinations.toSorted(),
      upcast: Object.keys(event.upcast ?? {}).map(Number),
      ...(event.sensitive && { sensitive: event.sensitive }),
      versions: Object.fromEntries(
        Object.entries(event.versions).map(([version, schema]) => [version, canonicalSchema(schema)]),
      ),
    })),
    exceptions,
  };
}

function mapSorted<From, To>(record: Readonly<Record<string, From>>, form: (value: From) => To): Record<string, To> {
  const names = Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(names.map(([name, value]) => [name, form(value)]));
}

/** The file's text. */
export function releasedText(released: ReleasedCatalogue): string {
  return `${JSON.stringify(released, null, 2)}\n`;
}

/** @throws CatalogueError (`CATALOGUE_RELEASED`) for a text that is none of ours. */
export function parseReleased(text: string, file: string): ReleasedCatalogue {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw new CatalogueError('CATALOGUE_RELEASED', `${file} is not JSON: restore it from version control.`, { cause });
  }
  const { source, destinations, events, exceptions } = (parsed ?? {}) as Partial<Record<string, unknown>>;
  const isRecord = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value);
  if (typeof source !== 'string' || !isRecord(destinations) || !isRecord(events) || !Array.isArray(exceptions)) {
    throw new CatalogueError(
      'CATALOGUE_RELEASED',
      `${file} is no released catalogue: restore it from version control.`,
    );
  }
  return parsed as ReleasedCatalogue;
}
