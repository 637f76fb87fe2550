import type pg from 'pg';
import {
  type Catalogue,
  checkConsumer,
  type CompiledCatalogue,
  ConsumerOptionsError,
  type DeclaredOrder,
  DEFAULT_WINDOW_DAYS,
  type EventType,
  RESERVED_TYPE_PREFIX,
} from '../events/index.ts';
import type { Keyring } from '../sealing/index.ts';
import type { Log, Metrics } from '../telemetry/index.ts';
import { type AnySteps, type Handlers, stepsOf } from './handlers.ts';
import type { TimeMargins } from './invocation.ts';
import type { ConsumerRules, UnknownTypes } from './work.ts';

export type ConsumerOptions<C extends CompiledCatalogue> = {
  /** Under this name dedupe rows and positions are kept: `[a-z][a-z0-9-]{0,62}`. It never changes. */
  readonly name: string;
  readonly catalogue: C;
  readonly handlers: Handlers<C>;
  /** The types of `handlers` as they were declared (`declareConsumer`): there must be a handler for each, and no other. */
  readonly handles?: readonly string[];
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
  /** Events older than this are held, because dedupe rows of that age may be gone; the janitor keeps them for so long. Days, 1 to 36,500; default: 35. */
  readonly windowDays?: number;
  /** Most messages of a batch in one transaction; 1: each in its own. Default: 10. */
  readonly together?: number;
  /** Where the keys of sealed values come from. */
  readonly keyring?: Keyring;
  /** The classes of sealed values that it opens, with the keyring. Values of others stay closed: `Sealed`. Default: none. */
  readonly opens?: readonly string[];
} & DeclaredOrder<keyof C['destinations'] & string>;

/** The handlers of a consumer that was declared (`declareConsumer`): one for each type that it handles. */
export type HandlersOf<C extends Catalogue, D extends { readonly handles: readonly EventType<C>[] }> = Required<
  Pick<Handlers<C>, D['handles'][number]>
>;

/**
 * A consumer's rules from its options.
 *
 * @throws ConsumerOptionsError (`CONSUMER_OPTIONS`)
 */
export function consumerRules<C extends CompiledCatalogue>(options: ConsumerOptions<C>): ConsumerRules {
  const { name, catalogue, pool, unknownTypes = 'hold', attempts = 5, together = 10 } = options;
  const handled = Object.keys(options.handlers);
  checkConsumer(catalogue, { ...options, handles: handled });
  checkDeclared(name, options.handles ?? handled, handled);
  for (const [option, value] of Object.entries({ attempts, together })) {
    if (!Number.isInteger(value) || value < 1) {
      throw new ConsumerOptionsError(`consumer ${name}: ${option} must be a whole number, 1 or more.`);
    }
  }
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
      windowDays: options.windowDays ?? DEFAULT_WINDOW_DAYS,
    },
    catalogue,
    stepsOf: (type) => (type.startsWith(RESERVED_TYPE_PREFIX) ? undefined : handlers.get(type)),
    callsBefore: [...handlers.values()].some((steps) => steps.before !== undefined),
    unknownTypes,
    attempts,
    together,
    concurrency: pool.options.max,
    keyring: opens.size === 0 ? undefined : options.keyring,
    opens,
  };
}

/** What was checked before the deployment is what runs. */
function checkDeclared(name: string, declared: readonly string[], handled: readonly string[]): void {
  const without = declared.filter((type) => !handled.includes(type));
  const undeclared = handled.filter((type) => !declared.includes(type));
  if (without.length === 0 && undeclared.length === 0) return;
  throw new ConsumerOptionsError(
    `the handlers of consumer ${name} are not those that it declares: ` +
      [...without.map((type) => `none for ${type}`), ...undeclared.map((type) => `one more for ${type}`)].join(', ') +
      `. Bring \`handles\` and the handlers together.`,
  );
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
