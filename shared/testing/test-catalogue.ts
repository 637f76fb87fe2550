import type { SQSEvent } from 'aws-lambda';
import type { Catalogue, CompiledCatalogue, EventData, EventType, ReceivedEvent } from '../events/index.ts';
import type { Handlers } from '../inbox/index.ts';
import type { Keyring } from '../sealing/index.ts';
import { sqsBatch } from './batch.ts';
import { openAppended } from './open-appended.ts';
import { type AnyGivenEvent, receivedEvent } from './received-event.ts';
import { type HandlerRun, runHandler, type RunHandlerOptions } from './run-handler.ts';
import type { RecordedEvent } from './test-transaction.ts';

/** An event as a test describes it. */
export type GivenEvent<C extends Catalogue> = {
  [Type in EventType<C>]: {
    readonly type: Type;
    /** As the newest version of the type's schema describes it. */
    readonly data: EventData<C, Type>;
    /** Default: `1`. */
    readonly aggregateId?: string;
    /** Its place in the aggregate's history. Default: 1. */
    readonly sequence?: bigint;
    /** Lower-case UUID. Default: a new one. */
    readonly id?: string;
    /** RFC 3339. Default: now. */
    readonly time?: string;
    readonly traceparent?: string;
    readonly correlationid?: string;
    readonly causationid?: string;
  };
}[EventType<C>];

/**
 * All of it throws TestingError `EVENT_NOT_IN_CATALOGUE` or `EVENT_DATA_INVALID` for an event that could never have been appended. A message names the
 * rule, never a value.
 */
export interface CatalogueTests<C extends Catalogue> {
  /**
   * Runs the handler of the event's type: its `before` step first, while there is no transaction, then `handle` in one. Order, repeats and retries are the
   * consumer's business and not shown here.
   *
   * @throws TestingError `HANDLER_MISSING`; `CALL_NOT_EXPECTED` for a call without an answer in `calls`; and whatever the handler throws
   */
  run(handlers: Handlers<C>, event: GivenEvent<C>, options?: RunHandlerOptions): Promise<HandlerRun>;
  /** The event as a handler would get it. */
  received(event: GivenEvent<C>): ReceivedEvent;
  /**
   * What Lambda invokes a whole consumer with, where a test database is at hand: a batch of a FIFO queue. Data with marks is put in as it is: write it with an outbox
   * first where it must be sealed.
   */
  batch(events: readonly GivenEvent<C>[]): SQSEvent;
  /** Appended events with what is sealed in them opened, as a reader with all of the keyring's classes would get them. */
  open(keyring: Keyring, events: readonly RecordedEvent[]): Promise<RecordedEvent[]>;
}

/**
 * Tests of what is written for a catalogue.
 *
 * ```ts
 * const { tx } = await testCatalogue(catalogue).run(handlers, { type: 'order.placed', data: { … } });
 * expect(tx.statements).toHaveLength(1);
 * ```
 */
export function testCatalogue<const C extends Catalogue>(catalogue: CompiledCatalogue<C>): CatalogueTests<C> {
  const any: CompiledCatalogue = catalogue;
  return {
    run: (handlers, event, options = {}) => runHandler(any, handlers, forgotten(event), options),
    received: (event) => receivedEvent(any, forgotten(event)),
    batch: (events) => sqsBatch(any, events.map(forgotten)),
    open: (keyring, events) => openAppended(any, keyring, events),
  };
}

/** The types of a catalogue are too deep to be held against another one. */
function forgotten(event: unknown): AnyGivenEvent {
  return event as AnyGivenEvent;
}
