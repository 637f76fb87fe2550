import { TransactionAbortedError } from '../database/index.ts';
import { KeysNotPreparedError, SealingError, type SealingErrorCode } from '../sealing/index.ts';
import {
  AnswerNotRecordableError,
  CallHeldError,
  CallNotDoneError,
  CallNotReadyError,
  CallNotWrittenError,
  CallUnansweredError,
} from './call-errors.ts';
import { HandlerFailedError, OutOfTimeError, TransactionEndedError } from './errors.ts';

/**
 * Why a message could not be applied.
 * - `retry`: the database or the network; trying again is the remedy
 * - `handler`: the handler threw; a bug, or data that it cannot take
 * - `malformed`: no envelope, data that breaks its schema, or an upcaster that fails on it
 * - `unknown-type`, `unknown-version`: the consumer's catalogue does not know it, or no upcaster takes the version
 * - `denied`: the consumer may not open what is sealed in it
 * - `time`: the invocation ran out of time
 */
export type FailureClass = 'retry' | 'handler' | 'malformed' | 'unknown-type' | 'unknown-version' | 'denied' | 'time';

/** What a log line may say about a failure: names and codes, never a message of foreign code. */
export interface Failure {
  readonly class: FailureClass;
  /** Stable: SQLSTATE, the operating system's error code, or one of this library's. */
  readonly code: string;
  /** Of a message that was refused as it is: the attribute or field and the rule, never a value. */
  readonly reason?: string;
  /** Of a handler: trying again changes nothing, so the event is held at once. */
  readonly final?: true;
  /** Of a handler's or an upcaster's error: its name and where it was thrown. */
  readonly errorName?: string;
  readonly frames?: readonly string[];
}

/** SQLSTATEs, beside the whole classes below, after which the same transaction may well succeed. */
const RETRY_STATES = new Set([
  '40001', // serialization failure
  '40P01', // deadlock
  '55P03', // lock not available
  '57014', // statement time-out or cancel
  '57P01', // server is shut down, …
  '57P02', // … has crashed, …
  '57P03', // … is starting
  '57P05', // idle session time-out
  '25P03', // idle in transaction time-out
  '25006', // read only: this connection still leads to the old writer after a fail-over
]);
/** Connection exceptions; insufficient resources; system errors. */
const RETRY_STATE_CLASSES = new Set(['08', '53', '58']);
const RETRY_ERRNOS = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
]);

/** ORMs wrap the driver's error; nobody wraps deeper than this. */
const CAUSE_DEPTH = 5;

/** The first error code along the chain of causes for which `wanted` holds. */
function findCode(error: unknown, wanted: (code: string) => boolean): string | undefined {
  let current = error;
  for (let depth = 0; depth < CAUSE_DEPTH && current instanceof Error; depth += 1) {
    const { code } = current as { code?: unknown };
    if (typeof code === 'string' && wanted(code)) return code;
    current = current.cause;
  }
  return undefined;
}

/** PostgreSQL has no class that begins with E; `EPIPE` and its like are not SQLSTATEs. */
const isState = (code: string): boolean => /^[0-9A-DF-Z][0-9A-Z]{4}$/.test(code);
/** A code that may be logged: constants of programs look like this, payload values do not. */
const isLoggable = (code: string): boolean => isState(code) || /^[A-Z][0-9A-Z_]{1,59}$/.test(code);
/** Whether the same may well succeed another time: SQLSTATEs and error codes of the operating system. */
export const isRetryable = (code: string): boolean =>
  RETRY_ERRNOS.has(code) || RETRY_STATES.has(code) || (isState(code) && RETRY_STATE_CLASSES.has(code.slice(0, 2)));

/** The SQLSTATE that the server answered with. */
export function sqlStateOf(error: unknown): string | undefined {
  return findCode(error, isState);
}

/** Whether the server answered with an error: then the connection is alive. */
export function isServerAnswer(error: unknown): boolean {
  return sqlStateOf(error) !== undefined;
}

/** What a consumer does with an event that it cannot open: outages cost no attempt, and what no retry changes is held. */
const SEALING = {
  SEALING_THROTTLED: 'retry',
  SEALING_UNAVAILABLE: 'retry',
  // Somebody has switched it off, and can switch it on again.
  SEALING_KEY_DISABLED: 'retry',
  SEALING_DENIED: 'denied',
  SEALING_KEY_UNKNOWN: 'malformed',
  SEALING_TAMPERED: 'malformed',
  SEALING_MALFORMED: 'malformed',
  SEALING_LIMIT: 'malformed',
} as const satisfies Record<SealingErrorCode, FailureClass>;

function classifySealing(error: unknown): Failure | undefined {
  if (error instanceof KeysNotPreparedError) return { class: 'retry', code: error.code };
  if (!(error instanceof SealingError)) return undefined;
  const { code, pointer } = error;
  return { class: SEALING[code], code, ...(pointer !== undefined && { reason: `data${pointer} does not open` }) };
}

/** Sorts what `applyOnce` rejected with. Errors of the consumer's own statements are never the event's fault. */
export function classifyFailure(error: unknown): Failure {
  if (error instanceof OutOfTimeError) return { class: 'time', code: error.code };
  if (error instanceof HandlerFailedError) return classifyHandlerFailure(error);
  const sealing = classifySealing(error);
  if (sealing !== undefined) return sealing;
  // The handler swallowed a statement's error, or ended the transaction.
  if (error instanceof TransactionAbortedError || error instanceof TransactionEndedError) {
    return { class: 'handler', code: error.code };
  }
  // A value of the envelope that PostgreSQL cannot take, such as a time in the year 0: no retry changes that.
  const dataState = findCode(error, (code) => isState(code) && code.startsWith('22'));
  if (dataState !== undefined) return { class: 'malformed', code: dataState };
  return { class: 'retry', code: findCode(error, isLoggable) ?? 'DATABASE_UNREACHABLE' };
}

function classifyHandlerFailure(error: HandlerFailedError): Failure {
  const call = classifyCallFailure(error.cause);
  if (call !== undefined) return call;
  // Keys that the handler or its `before` step asked for itself.
  const sealing = error.cause instanceof SealingError ? classifySealing(error.cause) : undefined;
  if (sealing?.class === 'retry') return sealing;
  const retryable = findCode(error.cause, isRetryable);
  if (retryable !== undefined) return { class: 'retry', code: retryable };
  if (error.connectionLost) return { class: 'retry', code: 'CONNECTION_LOST' };
  const { cause } = error;
  return {
    class: 'handler',
    code: findCode(cause, isLoggable) ?? error.code,
    ...whereThrown(cause),
  };
}

/** What `once` threw, as long as the `before` step let it pass. Refused calls and wrong options are the event's or the code's fault. */
function classifyCallFailure(error: unknown): Failure | undefined {
  if (error instanceof OutOfTimeError) return { class: 'time', code: error.code };
  if (error instanceof CallNotReadyError || error instanceof CallNotDoneError || error instanceof CallNotWrittenError) {
    return { class: 'retry', code: error.code };
  }
  if (needsPerson(error)) return { class: 'handler', code: error.code, final: true };
  // An outage of the provider is nobody's fault; a `call` that is not even able to call is the code's.
  if (!(error instanceof CallUnansweredError) || isProgrammingError(error.cause)) return undefined;
  return { class: 'retry', code: error.code, ...whereThrown(error.cause) };
}

function needsPerson(error: unknown): error is CallHeldError | AnswerNotRecordableError {
  return error instanceof CallHeldError || error instanceof AnswerNotRecordableError;
}

/** `fetch` throws a TypeError for whatever the network does, with the reason as its cause. */
export function isProgrammingError(error: unknown): boolean {
  return (
    error instanceof ReferenceError ||
    error instanceof RangeError ||
    (error instanceof TypeError && error.cause === undefined)
  );
}

/** What a log line may say about an error of the user's code. */
export function whereThrown(cause: unknown): Pick<Failure, 'errorName' | 'frames'> {
  return cause instanceof Error ? { errorName: safeName(cause), frames: stackFrames(cause) } : {};
}

function safeName(error: Error): string {
  return /^[A-Za-z][0-9A-Za-z_.]{0,63}$/.test(error.name) ? error.name : 'Error';
}

const FRAME = /^ {4}at (?:[^\n]{1,200} \()?(?:file:\/\/|node:|\/|[A-Za-z]:\\)[^\n]{1,400}:\d+:\d+\)?$/;
const FRAMES = 8;

/**
 * Where an error was thrown, without what it says. A stack begins with the message, which may hold payload values over
 * several lines, some of which may look like frames: so the message is cut off first and the rest is filtered by form. A
 * stack that does not contain the message as it is (it was changed after the throw) is left out.
 */
export function stackFrames(error: Error): string[] {
  const { stack, message } = error;
  if (typeof stack !== 'string' || typeof message !== 'string') return [];
  const at = stack.indexOf(message);
  if (at === -1) return [];
  return stack
    .slice(at + message.length)
    .split('\n')
    .slice(1)
    .filter((line) => FRAME.test(line))
    .slice(0, FRAMES)
    .map((line) => line.trim());
}
