import { SealedOutboxError } from '../errors/index.ts';

/** An append was refused because of one event. Nothing was written. */
export class EventRefusedError extends SealedOutboxError {
  /** Where, as code would write it: `events[0].data.totalMinor`. */
  readonly field: string;

  constructor(code: string, field: string, message: string, options?: ErrorOptions) {
    super(code, message, options);
    this.field = field;
  }
}

/** `EVENT_MALFORMED`: something about the event other than its data: aggregate id, metadata, an unknown key. */
export class EventMalformedError extends EventRefusedError {
  constructor(field: string, message: string, options?: ErrorOptions) {
    super('EVENT_MALFORMED', field, message, options);
  }
}

/** `EVENT_TYPE_UNKNOWN`: the catalogue (the code's, or the one installed in the database) has no such type. */
export class EventTypeUnknownError extends EventRefusedError {
  constructor(field: string, message: string, options?: ErrorOptions) {
    super('EVENT_TYPE_UNKNOWN', field, message, options);
  }
}

/** `EVENT_DATA_INVALID`: the data breaks its schema, or JSON or PostgreSQL could not hold it as it is. */
export class EventDataInvalidError extends EventRefusedError {
  constructor(field: string, message: string, options?: ErrorOptions) {
    super('EVENT_DATA_INVALID', field, message, options);
  }
}

/** `EVENT_TOO_LARGE`: the message would be over the limit of a destination. Keep the large part elsewhere. */
export class EventTooLargeError extends EventRefusedError {
  constructor(field: string, message: string, options?: ErrorOptions) {
    super('EVENT_TOO_LARGE', field, message, options);
  }
}

/** `EVENT_NOT_SEALED`: clear text where the installed catalogue wants it sealed. */
export class EventNotSealedError extends EventRefusedError {
  constructor(field: string, message: string, options?: ErrorOptions) {
    super('EVENT_NOT_SEALED', field, message, options);
  }
}

/** `COMMIT_NOT_DURABLE`: `synchronous_commit` is off, so a crash could take back what was already published. */
export class CommitNotDurableError extends SealedOutboxError {
  constructor(message: string, options?: ErrorOptions) {
    super('COMMIT_NOT_DURABLE', message, options);
  }
}

/** `NOT_A_TRANSACTION`: append was given a pool, or a connection outside a transaction or in a failed one. */
export class NotATransactionError extends SealedOutboxError {
  constructor(message: string) {
    super('NOT_A_TRANSACTION', message);
  }
}

/**
 * The library's error for one that `outbox.append` raised in SQL, or null for any other error, which belongs to the
 * caller as it is: a deadlock (40P01) or a serialisation failure (40001) means to run the transaction again.
 */
export function appendErrorOf(cause: unknown): SealedOutboxError | null {
  if (!(cause instanceof Error) || !('code' in cause)) return null;
  const message = cause.message;
  const field = /^events\[\d+\](?:\.[\w$]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*/.exec(message)?.[0] ?? 'events';
  switch (cause.code) {
    case 'OB001':
      return new EventMalformedError(field, message, { cause });
    case 'OB002':
      return new EventTypeUnknownError(field, `${message} Deploy the catalogue that has it first.`, { cause });
    case 'OB003':
      return new EventTooLargeError(field, message, { cause });
    case 'OB004':
      return new CommitNotDurableError(message, { cause });
    case 'OB010':
      return new EventNotSealedError(field, message, { cause });
    default:
      return null;
  }
}
