import { SealedOutboxError } from '../errors/index.ts';

/**
 * A strict consumer met an event whose predecessor it has not applied (`ORDER_GAP`). Nothing was changed; the message and
 * the rest of its group go back to the queue, where the missing event may still be on its way.
 */
export class OrderGapError extends SealedOutboxError {
  readonly expected: bigint;

  constructor(expected: bigint) {
    super('ORDER_GAP', `expected sequence ${expected}: the event was not applied and goes back to the queue.`);
    this.expected = expected;
  }
}

/**
 * A strict consumer met an event that it has not applied although it has applied a later one (`ORDER_LATE`). Applying it
 * would turn the state back, acknowledging it would lose it: it goes back to the queue and ends in the dead-letter queue.
 */
export class OrderLateError extends SealedOutboxError {
  readonly expected: bigint;

  constructor(expected: bigint) {
    super(
      'ORDER_LATE',
      `expected sequence ${expected}: the event is late, was not applied and goes back to the queue.`,
    );
    this.expected = expected;
  }
}

/**
 * A handler rejected (`HANDLER_FAILED`). Its transaction was rolled back, dedupe row and position with it. What it threw
 * is the `cause`; its message may hold payload values and is never logged.
 */
export class HandlerFailedError extends SealedOutboxError {
  /** The connection was gone when the handler rejected: the database's failure, not the handler's. */
  readonly connectionLost: boolean;

  constructor(cause: unknown, connectionLost: boolean) {
    super(
      'HANDLER_FAILED',
      'the handler failed: its transaction was rolled back and the event goes back to the queue.',
      {
        cause,
      },
    );
    this.connectionLost = connectionLost;
  }
}

/** The invocation's time is up (`OUT_OF_TIME`). The transaction was discarded and the event goes back to the queue. */
export class OutOfTimeError extends SealedOutboxError {
  constructor() {
    super('OUT_OF_TIME', 'the invocation has no time left: the event was not applied and goes back to the queue.');
  }
}

/**
 * The function was invoked with something that is no SQS batch (`NOT_A_BATCH`), so there is nothing to return message by
 * message. Check the event source of the function.
 */
export class NotABatchError extends SealedOutboxError {
  constructor(what: string) {
    super('NOT_A_BATCH', `the function was not invoked with an SQS batch: ${what}. Nothing was processed.`);
  }
}

/**
 * `inbox.consumer` knows this consumer with another mode or starting point (`CONSUMER_CHANGED`). Positions and dedupe rows
 * that were written under one do not fit the other. Nothing was processed; give the changed consumer a new name.
 */
export class ConsumerChangedError extends SealedOutboxError {
  constructor(name: string, what: 'mode' | 'starting point', registered: string, wanted: string) {
    super(
      'CONSUMER_CHANGED',
      `consumer ${name} is registered with the ${what} ${registered} and was started with ${wanted}: nothing was ` +
        `processed. Start the changed consumer under a new name, or set its ${what} back.`,
    );
  }
}

/** `eventConsumer` was called with options that cannot work (`CONSUMER_OPTIONS`). Thrown when the module loads. */
export class ConsumerOptionsError extends SealedOutboxError {
  constructor(message: string) {
    super('CONSUMER_OPTIONS', message);
  }
}
