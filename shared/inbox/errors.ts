import { SealedOutboxError } from '../errors/index.ts';

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

/**
 * A handler committed or rolled back (`TRANSACTION_ENDED`). PostgreSQL refused the commit: nothing of the transaction was kept.
 * The consumer ends the transaction; a part of it can be undone with a savepoint.
 */
export class TransactionEndedError extends SealedOutboxError {
  constructor() {
    super(
      'TRANSACTION_ENDED',
      'the handler ended the transaction that holds its dedupe row: nothing of it was kept. Leave commit and rollback to the consumer.',
    );
  }
}

/**
 * An event that EventBridge handed to the function itself was neither applied nor held (`NOT_APPLIED`): there is no batch to return it in, so the
 * invocation fails. Lambda tries twice more, then the event is in the function's dead-letter queue, or nowhere if it has none.
 */
export class NotAppliedError extends SealedOutboxError {
  constructor() {
    super(
      'NOT_APPLIED',
      'the event was neither applied nor held: the log line before this one says why. Lambda tries twice more; then it is in the ' +
        "function's dead-letter queue, or lost if it has none.",
    );
  }
}

/** An event may be applied that was not when its `before` step was to run (`BEFORE_MISSING`). It was rolled back and comes again. */
export class BeforeMissingError extends SealedOutboxError {
  constructor() {
    super('BEFORE_MISSING', "the event's turn came after its before step was passed over: it goes back to the queue.");
  }
}

/** The invocation's time is up (`OUT_OF_TIME`). The transaction was discarded and the event goes back to the queue. */
export class OutOfTimeError extends SealedOutboxError {
  constructor() {
    super('OUT_OF_TIME', 'the invocation has no time left: the event was not applied and goes back to the queue.');
  }
}

/**
 * The function was invoked with something that is neither an SQS batch nor an event of EventBridge (`NOT_A_BATCH`), so there is
 * nothing to return message by message. Check the event source of the function.
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
