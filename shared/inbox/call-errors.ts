import { SealedOutboxError } from '../errors/index.ts';

/**
 * Thrown by `call`: the provider has answered that it did not do this and never will (`CALL_REFUSED`), as a 4xx says of an address that
 * does not exist. The failure is charged to the event, like a bug of the handler; the next delivery calls again.
 */
export class CallRefusedError extends SealedOutboxError {
  constructor(options?: ErrorOptions) {
    super('CALL_REFUSED', 'the provider refused the call for good: nothing was done and nothing recorded.', options);
  }
}

/**
 * Thrown by `call`: the provider has surely not done it and may do it later (`CALL_NOT_DONE`): 429, 503, a connection that was refused.
 * The event comes again and is called for again, without a look-up; nothing is charged. When in doubt throw anything else.
 */
export class CallNotDoneError extends SealedOutboxError {
  constructor(options?: ErrorOptions) {
    super('CALL_NOT_DONE', 'the provider has not done it yet: the event goes back to the queue.', options);
  }
}

/**
 * `call` rejected or took too long (`CALL_UNANSWERED`): it may have happened. Nothing was recorded; the next delivery asks or follows its
 * policy. What `call` threw is the `cause`; its message may hold payload values and is never logged.
 */
export class CallUnansweredError extends SealedOutboxError {
  constructor(options?: ErrorOptions) {
    super('CALL_UNANSWERED', 'nobody knows whether the call happened: the event goes back to the queue.', options);
  }
}

/** Another delivery of the event is calling (`CALL_LEASED`), or a call may still happen (`CALL_UNSETTLED`). The event comes again. */
export class CallNotReadyError extends SealedOutboxError {
  constructor(code: 'CALL_LEASED' | 'CALL_UNSETTLED') {
    super(
      code,
      code === 'CALL_LEASED'
        ? 'another delivery of this event is making the call: this one goes back to the queue.'
        : 'an earlier call may still happen or the look-up does not answer: the event goes back to the queue.',
    );
  }
}

/**
 * The database did not answer when the call was reserved or its answer recorded (`CALL_NOT_WRITTEN`). The event comes again and nothing is
 * charged; a call that was made is then taken for one that may have happened. What the driver threw is the `cause`.
 */
export class CallNotWrittenError extends SealedOutboxError {
  constructor(options?: ErrorOptions) {
    super(
      'CALL_NOT_WRITTEN',
      'the database did not answer what is kept of the call: the event goes back to the queue.',
      options,
    );
  }
}

/**
 * Nobody knows whether the call happened, or its answer could not be recorded (`CALL_HELD`): it waits for a person, who says with
 * `recordCall` or `repeatCall` how it goes on.
 */
export class CallHeldError extends SealedOutboxError {
  constructor(options?: ErrorOptions) {
    super(
      'CALL_HELD',
      'the call waits for a person: look at the provider, then record its answer or let it be repeated.',
      options,
    );
  }
}

/**
 * The call happened and its answer cannot be recorded (`ANSWER_NOT_RECORDABLE`): it is too large, or `toRecord` threw. So that it is not
 * made again, it is held: deploy a `toRecord` that keeps less, then say with `recordCall` what the answer was.
 */
export class AnswerNotRecordableError extends SealedOutboxError {
  constructor(what: string, options?: ErrorOptions) {
    super('ANSWER_NOT_RECORDABLE', `the answer of the call ${what}: the call is held for a person.`, options);
  }
}

/** `once` was used in a way that cannot work (`CALL_OPTIONS`): a bad name, a name used twice for one event, a time that is none. */
export class CallOptionsError extends SealedOutboxError {
  constructor(message: string) {
    super('CALL_OPTIONS', `${message} Nothing was called.`);
  }
}
