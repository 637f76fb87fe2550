import { SealedOutboxError } from '../errors/index.ts';
import type { Catalogue, EventType } from './catalogue.ts';
import { isConsumerName } from './names.ts';

/**
 * How a consumer treats order.
 * - `any`: each event once, in whatever order it arrives.
 * - `latest`: per aggregate only what is newer than the last one applied; for events that carry the full state.
 * - `strict`: each event once, and per aggregate only the next sequence or the first of a higher epoch.
 */
export type Mode = 'any' | 'latest' | 'strict';

/**
 * Where a strict consumer starts on an aggregate that it has never seen.
 * - `beginning`: with the first event of an epoch, nothing else.
 * - `first-seen`: with whatever arrives first. For a consumer that joins running streams.
 */
export type StartingPoint = 'beginning' | 'first-seen';

/** The order that a consumer keeps, and what that needs. */
export type DeclaredOrder<Destination extends string = string> =
  | { readonly mode: 'any' }
  /** Every handled type carries the full state of its aggregate: one that is older than the last one applied is dropped. */
  | { readonly mode: 'latest' }
  | {
      readonly mode: 'strict';
      /** Where it starts on an aggregate that it has not seen. */
      readonly startingPoint: StartingPoint;
      /** The catalogue's destination that it reads. All types of the aggregates that it handles must be routed there. */
      readonly destination: Destination;
    };

/** What is known of a consumer before anything of it runs. */
export type ConsumerDeclaration<Type extends string = string, Destination extends string = string> = {
  /** Under this name dedupe rows and positions are kept: `[a-z][a-z0-9-]{0,62}`. It never changes. */
  readonly name: string;
  /** The types that it has handlers for: these and no others. */
  readonly handles: readonly Type[];
  /**
   * Events older than this are held, because dedupe rows of that age may be gone. Days, 1 to 36,500; default: 35. A janitor that is deployed in the same app
   * must keep dedupe rows for so long; the database keeps them in any case.
   */
  readonly windowDays?: number;
} & DeclaredOrder<Destination>;

/** The window of a consumer that declares none. Days. */
export const DEFAULT_WINDOW_DAYS = 35;

/** A consumer cannot work as it was declared, or built from its options (`CONSUMER_OPTIONS`). */
export class ConsumerOptionsError extends SealedOutboxError {
  constructor(message: string) {
    super('CONSUMER_OPTIONS', message);
  }
}

/**
 * Declares a consumer, for its function and for the construct that deploys it: `eventConsumer({ ...ledger, … })` and
 * `new EventConsumer(stack, 'Ledger', { consumer: ledger, … })`. What cannot work is refused here, so that a build, a test or a synthesis
 * that imports the declaration fails before anything is deployed.
 *
 * ```ts
 * export const ledger = declareConsumer(definition, {
 *   name: 'ledger', mode: 'strict', startingPoint: 'beginning', destination: 'ledger', handles: ['invoice.issued', 'invoice.paid'],
 * });
 * ```
 *
 * @param catalogue as `defineCatalogue` or `compiledCatalogue` gives it
 * @throws ConsumerOptionsError (`CONSUMER_OPTIONS`) for a name that is none, a type or destination that the catalogue does not hold, a window that is none, and a strict
 * consumer whose destination lacks types of its aggregates
 */
export function declareConsumer<
  C extends Catalogue,
  const D extends ConsumerDeclaration<EventType<C>, keyof C['destinations'] & string>,
>(catalogue: C, declaration: D): D {
  checkConsumer(catalogue, declaration);
  return Object.freeze(declaration);
}

/**
 * Holds a consumer against a catalogue: the check of {@link declareConsumer}, for whoever has both.
 *
 * @throws ConsumerOptionsError (`CONSUMER_OPTIONS`)
 */
export function checkConsumer(catalogue: Catalogue, consumer: ConsumerDeclaration): void {
  const { name, handles, windowDays = DEFAULT_WINDOW_DAYS } = consumer;
  if (!isConsumerName(name)) {
    throw new ConsumerOptionsError(`name ${JSON.stringify(name)} must be 1-63 of a-z 0-9 - and start with a letter.`);
  }
  if (!Number.isInteger(windowDays) || windowDays < 1 || windowDays > 36_500) {
    throw new ConsumerOptionsError(`consumer ${name}: windowDays must be a whole number, 1 to 36500.`);
  }
  for (const type of handles) {
    if (!Object.hasOwn(catalogue.events, type)) {
      throw new ConsumerOptionsError(`consumer ${name} has a handler for ${type}, which its catalogue does not hold.`);
    }
  }
  if (consumer.mode === 'strict') checkRoutes(catalogue, name, handles, consumer.destination);
}

/** A strict consumer that does not get every event of an aggregate meets gaps that never close. */
function checkRoutes(catalogue: Catalogue, name: string, handles: readonly string[], destination: string): void {
  if (!Object.hasOwn(catalogue.destinations, destination)) {
    throw new ConsumerOptionsError(
      `consumer ${name}: its catalogue has no destination ${JSON.stringify(destination)}.`,
    );
  }
  const aggregates = new Set(handles.map((type) => catalogue.events[type]?.aggregate));
  const missing = Object.entries(catalogue.events)
    .filter(([, event]) => aggregates.has(event.aggregate) && !event.destinations.includes(destination))
    .map(([type]) => type);
  if (missing.length > 0) {
    throw new ConsumerOptionsError(
      `consumer ${name} is strict, and ${missing.join(', ')} of its aggregates ${missing.length === 1 ? 'is' : 'are'} not routed to ` +
        `${destination}: each would leave a gap that never closes. Route all types of the aggregate there, or use mode 'latest' or 'any'.`,
    );
  }
}
