import type pg from 'pg';
import type { Catalogue, DataOf, EventType, NewestVersion, ReceivedEvent } from '../events/index.ts';

/** What a handler works with, beside the event. */
export interface HandlerContext {
  /**
   * The connection, inside the transaction that also holds the dedupe row and the position. What the handler writes
   * through it happens exactly once. Never commit or roll back on it, never keep it, and call nothing over the network
   * while it is open.
   */
  readonly tx: pg.ClientBase;
}

/** An event of `Type` in its newest version, whatever version it was written with. `schemaVersion` is the newest, too. */
export type ConsumedEvent<C extends Catalogue, Type extends EventType<C>> = {
  [Version in keyof C['events'][Type]['versions'] & number]: Version extends NewestVersion<
    C['events'][Type]['versions']
  >
    ? ReceivedEvent<Type, DataOf<C['events'][Type]['versions'][Version]>> & { readonly schemaVersion: Version }
    : never;
}[keyof C['events'][Type]['versions'] & number];

/** Applies one event. Rejecting rolls back and returns the message to the queue. */
export type Handler<Event> = (event: Event, context: HandlerContext) => Promise<void>;

/** A handler for each type that the consumer is interested in. */
export type Handlers<C extends Catalogue> = {
  readonly [Type in EventType<C>]?: Handler<ConsumedEvent<C, Type>>;
};

/** A handler whose event's type has been checked against the catalogue. */
export type AnyHandler = Handler<ReceivedEvent>;
