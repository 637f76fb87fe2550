import type pg from 'pg';
import type { Catalogue, DataOf, EventType, NewestVersion, ReceivedEvent } from '../events/index.ts';
import type { Sealed } from '../sealing/index.ts';
import type { Once } from './once.ts';

/** What a handler works with, beside the event. */
export interface HandlerContext<Before = unknown> {
  /**
   * The connection, inside the transaction that also holds the dedupe row and the position. What the handler writes
   * through it happens exactly once. Never commit or roll back on it, never keep it, and call nothing over the network
   * while it is open.
   */
  readonly tx: pg.ClientBase;
  /** What the handler's `before` step answered; undefined where it has none. */
  readonly before: Before;
}

/** What a `before` step works with, beside the event. No transaction is open while it runs. */
export interface BeforeContext {
  /** Calls another system once for this event, however often the message comes. */
  readonly once: Once;
}

interface Marked {
  readonly 'x-gdpr-sensitive': true | object;
}

/** Whether something of a schema is marked, as far as types can tell: not behind `$ref`, nor in branches. */
type HasMark<Schema> = Schema extends Marked
  ? true
  : Schema extends { readonly properties: infer Properties }
    ? true extends { [Name in keyof Properties]: HasMark<Properties[Name]> }[keyof Properties]
      ? true
      : false
    : Schema extends { readonly items: infer Items }
      ? HasMark<Items>
      : false;

/** What is marked may be closed to this consumer, or its person erased; `null` is never sealed. */
type WithSealed<Schema, Data> = Schema extends Marked
  ? Data | ([Exclude<Data, null | undefined>] extends [never] ? never : Sealed<Exclude<Data, null | undefined>>)
  : Schema extends { readonly properties: infer Properties }
    ? { [Name in keyof Data]: Name extends keyof Properties ? WithSealed<Properties[Name], Data[Name]> : Data[Name] }
    : Schema extends { readonly items: infer Items }
      ? { [Index in keyof Data]: WithSealed<Items, Data[Index]> }
      : Data;

/** Data of a schema as a handler gets it: where a mark stands, perhaps still sealed. */
export type ConsumedData<Schema> = HasMark<Schema> extends true ? WithSealed<Schema, DataOf<Schema>> : DataOf<Schema>;

/** An event of `Type` in its newest version, whatever version it was written with. `schemaVersion` is the newest, too. */
export type ConsumedEvent<C extends Catalogue, Type extends EventType<C>> = {
  [Version in keyof C['events'][Type]['versions'] & number]: Version extends NewestVersion<
    C['events'][Type]['versions']
  >
    ? ReceivedEvent<Type, ConsumedData<C['events'][Type]['versions'][Version]>> & { readonly schemaVersion: Version }
    : never;
}[keyof C['events'][Type]['versions'] & number];

/** Applies one event. Rejecting rolls back what it wrote. */
export type Handler<Event> = (event: Event, context: HandlerContext) => Promise<void>;

/**
 * What happens behind an event whose handler has failed as often as the consumer tries: later ones of its aggregate wait
 * (`block`), or go on without it (`skip`).
 */
export type WhenFailing = 'block' | 'skip';

/** A handler in steps: calls of other systems first, the transaction after them. */
export interface HandlerSteps<Event, Before = unknown> {
  /**
   * Runs outside of any transaction, and only for an event that is neither processed nor out of order. It may run again for
   * the same event: whatever it calls must bear that.
   */
  before?(event: Event, context: BeforeContext): Promise<Before>;
  /** Applies the event; `context.before` is what the step before answered. */
  handle(event: Event, context: HandlerContext<Before>): Promise<void>;
  /** Default: `block` in mode `strict`, else `skip`. */
  readonly whenFailing?: WhenFailing;
}

/** A handler that takes several events of its type at once, so that one statement can write for all of them. */
export interface ManyHandler<Event> {
  /**
   * Applies all of `events` or rejects: those of one aggregate come in their order, and there may be one only. Rejecting rolls back what the call and
   * others of its transaction wrote; each event is then given alone, which tells whose fault it was.
   */
  handleMany(events: readonly [Event, ...Event[]], context: ManyContext): Promise<void>;
  /** Default: `block` in mode `strict`, else `skip`. */
  readonly whenFailing?: WhenFailing;
}

/** What a handler of several events works with. */
export type ManyContext = Pick<HandlerContext, 'tx'>;

/** A handler for each type that the consumer is interested in. */
export type Handlers<C extends Catalogue> = {
  readonly [Type in EventType<C>]?:
    | Handler<ConsumedEvent<C, Type>>
    | HandlerSteps<ConsumedEvent<C, Type>>
    | ManyHandler<ConsumedEvent<C, Type>>;
};

/** Steps of a handler whose event's type has been checked against the catalogue. Without a call of its own for one, it is given a list of one. */
export type AnySteps = HandlerSteps<ReceivedEvent> & Partial<Pick<ManyHandler<ReceivedEvent>, 'handleMany'>>;

/**
 * Ties what `before` answers to what `handle` gets; TypeScript knows `context.before` as `unknown` otherwise. The event's type
 * follows where the handlers are declared as such:
 *
 * ```ts
 * const handlers: Handlers<typeof catalogue> = {
 *   'invoice.issued': handlerSteps({
 *     before: async (event) => priceOf(event.data.currency),
 *     handle: async (event, { tx, before: price }) => { … },
 *   }),
 * };
 * ```
 */
export function handlerSteps<Event, Before>(steps: {
  readonly before: (event: Event, context: BeforeContext) => Promise<Before>;
  readonly handle: (event: Event, context: HandlerContext<Before>) => Promise<void>;
  readonly whenFailing?: WhenFailing;
}): HandlerSteps<Event> {
  return steps;
}

/** A handler in its long form. */
export function stepsOf(handler: Handler<never> | HandlerSteps<never> | ManyHandler<never>): AnySteps {
  if (typeof handler === 'function') return { handle: handler };
  if (!('handleMany' in handler)) return handler;
  return { ...handler, handle: (event, { tx }) => handler.handleMany([event as never], { tx }) };
}
