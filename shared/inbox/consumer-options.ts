import type pg from 'pg';
import { type CompiledCatalogue, RESERVED_TYPE_PREFIX } from '../events/index.ts';
import type { Keyring } from '../sealing/index.ts';
import type { Log, Metrics } from '../telemetry/index.ts';
import { ConsumerOptionsError } from './errors.ts';
import { type AnySteps, type Handlers, stepsOf } from './handlers.ts';
import type { TimeMargins } from './invocation.ts';
import type { StartingPoint } from './order.ts';
import type { ConsumerRules, UnknownTypes } from './work.ts';

export type ConsumerOptions<C extends CompiledCatalogue> = {
  /** Under this name dedupe rows and positions are kept: `[a-z][a-z0-9-]{0,62}`. It never changes. */
  readonly name: string;
  readonly catalogue: C;
  readonly handlers: Handlers<C>;
  /** As many transactions run at once as it has connections (`max`). */
  readonly pool: pg.Pool;
  readonly log: Log;
  readonly metrics: Metrics;
  /** Default: no message is started in the last 3,000 ms, and none runs into the last 500 ms. */
  readonly margins?: TimeMargins;
  /** Events of a type that the catalogue does not hold are kept (`hold`), or acknowledged and counted (`ignore`). Default: `hold`. */
  readonly unknownTypes?: UnknownTypes;
  /** Failures of a handler with one event until the event is held. Default: 5. */
  readonly attempts?: number;
  /** Events older than this are held, because dedupe rows of that age may be gone. Days; default: 35. */
  readonly windowDays?: number;
  /** Most messages of a batch in one transaction; 1: each in its own. Default: 10. */
  readonly together?: number;
  /** Where the keys of sealed values come from. */
  readonly keyring?: Keyring;
  /** The classes of sealed values that it opens, with the keyring. Values of others stay closed: `Sealed`. Default: none. */
  readonly opens?: readonly string[];
} & (
  | { readonly mode: 'any' }
  /** Every handled type carries the full state of its aggregate: one that is older than the last one applied is dropped. */
  | { readonly mode: 'latest' }
  | {
      readonly mode: 'strict';
      /** Where it starts on an aggregate that it has not seen. */
      readonly startingPoint: StartingPoint;
      /** The catalogue's destination that it reads. All types of the aggregates that it handles must be routed there. */
      readonly destination: keyof C['destinations'] & string;
    }
);

const NAME = /^[a-z][a-z0-9-]{0,62}$/;

/**
 * A consumer's rules from its options.
 *
 * @throws ConsumerOptionsError (`CONSUMER_OPTIONS`)
 */
export function consumerRules<C extends CompiledCatalogue>(options: ConsumerOptions<C>): ConsumerRules {
  const { name, catalogue, pool, unknownTypes = 'hold', attempts = 5, windowDays = 35, together = 10 } = options;
  if (!NAME.test(name)) {
    throw new ConsumerOptionsError(`name ${JSON.stringify(name)} must be 1-63 of a-z 0-9 - and start with a letter.`);
  }
  for (const [option, value] of Object.entries({ attempts, windowDays, together })) {
    if (!Number.isInteger(value) || value < 1) {
      throw new ConsumerOptionsError(`consumer ${name}: ${option} must be a whole number, 1 or more.`);
    }
  }
  for (const type of Object.keys(options.handlers)) {
    if (!Object.hasOwn(catalogue.events, type)) {
      throw new ConsumerOptionsError(`consumer ${name} has a handler for ${type}, which its catalogue does not hold.`);
    }
  }
  if (options.mode === 'strict') checkRoutes(catalogue, options);
  const opens = new Set(options.opens ?? []);
  checkOpens(name, catalogue, opens, options.keyring);
  // The map forgets which data belongs to which type; `readEvent` has validated it by then.
  const handlers: ReadonlyMap<string, AnySteps> = new Map(
    Object.entries(options.handlers).map(([type, handler]) => [type, stepsOf(handler as never)]),
  );
  return {
    consumer: {
      name,
      mode: options.mode,
      startingPoint: options.mode === 'strict' ? options.startingPoint : 'first-seen',
    },
    catalogue,
    stepsOf: (type) => (type.startsWith(RESERVED_TYPE_PREFIX) ? undefined : handlers.get(type)),
    callsBefore: [...handlers.values()].some((steps) => steps.before !== undefined),
    unknownTypes,
    attempts,
    windowDays,
    together,
    concurrency: pool.options.max,
    keyring: opens.size === 0 ? undefined : options.keyring,
    opens,
  };
}

function checkOpens(
  name: string,
  catalogue: CompiledCatalogue,
  opens: ReadonlySet<string>,
  keyring: Keyring | undefined,
): void {
  if (opens.size > 0 && keyring === undefined) {
    throw new ConsumerOptionsError(`consumer ${name} opens ${[...opens].join(', ')} and was given no keyring.`);
  }
  const marked = new Set(
    [...catalogue.sealed.values()].flatMap(({ plan }) => plan.nodes.map((node) => node.mark?.class)),
  );
  for (const className of opens) {
    if (!marked.has(className)) {
      throw new ConsumerOptionsError(`consumer ${name} opens class ${className}, which its catalogue does not mark.`);
    }
  }
}

/**
 * Whether a strict consumer at this destination can follow its aggregates: one that does not get every event of an aggregate meets gaps that
 * never close.
 *
 * @throws ConsumerOptionsError (`CONSUMER_OPTIONS`) naming the types that are not routed to the destination
 */
export function checkRoutes(
  catalogue: CompiledCatalogue,
  { name, destination, handlers }: { readonly name: string; readonly destination: string; readonly handlers: object },
): void {
  if (!Object.hasOwn(catalogue.destinations, destination)) {
    throw new ConsumerOptionsError(
      `consumer ${name}: its catalogue has no destination ${JSON.stringify(destination)}.`,
    );
  }
  const aggregates = new Set(Object.keys(handlers).map((type) => catalogue.events[type]?.aggregate));
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
