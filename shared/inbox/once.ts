import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { type Connections, transaction } from '../database/index.ts';
import { SealedOutboxError } from '../errors/index.ts';
import {
  AnswerNotRecordableError,
  CallHeldError,
  CallNotDoneError,
  CallNotReadyError,
  CallNotWrittenError,
  CallOptionsError,
  CallRefusedError,
  CallUnansweredError,
} from './call-errors.ts';
import type { CallPlace } from './call-key.ts';
import { leaveCall, noteRepeatedCall, recordAnswer, reserveCall, type Unfinished } from './call-record.ts';
import { type AbortAfter, type CallTimes, startCallTime } from './call-time.ts';
import { type CallStep, type Known, nextStep, type UnansweredPolicy } from './external-call.ts';
import { isProgrammingError, isServerAnswer } from './failure.ts';

/** What a provider says about a key. A look-up throws where the provider cannot be asked just now. */
export type LookupAnswer<Answer> =
  | { readonly kind: 'done'; readonly answer: Answer }
  | { readonly kind: 'not-done' }
  /** It was asked and cannot tell. */
  | { readonly kind: 'unknown' };

export interface CallOptions<Answer, Recorded> extends CallTimes {
  /**
   * What becomes of a call that may have happened, when nobody can say: `retry` calls again with the same key, which is right for a
   * provider that has idempotency keys; `hold` leaves it to a person.
   */
  readonly unanswered: UnansweredPolicy;
  /** Asks the provider what became of the key. Asked only when a call may have happened. */
  readonly lookup?: (key: string, signal: AbortSignal) => Promise<LookupAnswer<NoInfer<Answer>>>;
  /** What of the answer is kept and given to the handler. Leave out what is personal. Default: all of it. */
  readonly toRecord?: (answer: Answer) => Recorded;
}

/**
 * Calls another system once for the event, and gives the same answer each time.
 *
 * ```ts
 * const mail = await once('mail', (key, signal) => provider.send(key, text, signal), {
 *   lookup: (key, signal) => provider.find(key, signal),
 *   unanswered: 'retry',
 * });
 * ```
 *
 * @param name of the call, the same in every deployment: `[a-z][a-z0-9-]{0,62}`, once per event
 * @param call makes the call with this idempotency key, and stops when the signal aborts. It throws CallRefusedError or CallNotDoneError
 * where the provider has said that it did nothing; after every other error the call may have happened.
 * @returns what is recorded: JSON, at most 16,384 bytes
 * @throws what `classifyFailure` sorts. Let it pass: it decides whether the event goes back or is charged.
 */
export type Once = <Answer, Recorded = Answer>(
  name: string,
  call: (key: string, signal: AbortSignal) => Promise<Answer>,
  options: CallOptions<Answer, Recorded>,
) => Promise<Recorded>;

export interface OnceWork {
  readonly connections: Connections;
  readonly consumer: string;
  readonly eventId: string;
  /** Until the invocation is abandoned. Milliseconds. */
  readonly remainingMs: () => number;
  /** Default: AbortSignal.timeout. */
  readonly abortAfter?: AbortAfter;
}

const MAX_RESPONSE_BYTES = 16_384;
const NAME = /^[a-z][a-z0-9-]{0,62}$/;

/** `once` for one event, as `before` steps get it. */
export function createOnce(work: OnceWork): Once {
  const names = new Set<string>();
  return async (name, call, options) => {
    if (!NAME.test(name)) {
      throw new CallOptionsError('The name of a call must be 1-63 of a-z 0-9 - and start with a letter.');
    }
    if (names.has(name)) throw new CallOptionsError(`The call ${name} was made twice for one event.`);
    names.add(name);
    const response = await callOnce(work, { consumer: work.consumer, eventId: work.eventId, name }, call, options);
    return JSON.parse(response);
  };
}

/** What is known from the provider, with the answer where the look-up found one. */
type Found<Answer> = { readonly kind: Exclude<Known, 'done'> } | { readonly kind: 'done'; readonly answer: Answer };

/** No connection is held while the provider is asked or called: each transaction begins and ends between. */
async function callOnce<Answer, Recorded>(
  { connections, remainingMs, abortAfter }: OnceWork,
  place: CallPlace,
  call: (key: string, signal: AbortSignal) => Promise<Answer>,
  { lookup, toRecord, unanswered: policy, ...times }: CallOptions<Answer, Recorded>,
): Promise<string> {
  const time = startCallTime(remainingMs, times, lookup !== undefined, abortAfter);
  const token = randomUUID();
  const reserved = await written(connections, (tx) => reserveCall(tx, place, token, time.leaseMs));
  const { state, key, calledMsAgo } = reserved;
  const stepAfter = (known: Known): CallStep => nextStep(state, policy, known, time.isSettled(calledMsAgo));
  let found: Found<Answer> = { kind: lookup === undefined ? 'none' : 'possible' };
  let step = stepAfter(found.kind);
  if (step === 'answer') return reserved.response;
  if (step === 'refuse') throw new CallHeldError();
  if (state === 'leased') throw new CallNotReadyError('CALL_LEASED');

  const record = async (answer: Answer): Promise<string> => {
    const response = toResponse(answer, toRecord);
    return written(connections, (tx) => recordAnswer(tx, place, response));
  };
  const before: Unfinished = { kind: state === 'uncalled' ? 'uncalled' : 'unanswered' };
  let left = before;
  try {
    if (step === 'look-up' && lookup !== undefined) {
      found = await lookUp((signal) => lookup(key, signal), time.signal());
      step = stepAfter(found.kind);
    }
    if (found.kind === 'done') return await record(found.answer);
    if (step === 'hold') throw new CallHeldError();
    if (step !== 'call') throw new CallNotReadyError('CALL_UNSETTLED');

    const signal = time.signal();
    if (state === 'unanswered' && !(await written(connections, (tx) => noteRepeatedCall(tx, place, token)))) {
      throw new CallNotReadyError('CALL_LEASED');
    }
    left = { kind: 'unanswered' };
    return await record(await makeCall((aborts) => call(key, aborts), signal));
  } catch (error) {
    left = leftBy(error, before) ?? left;
    // Where the database does not even take this, the lease ends by itself.
    await transaction(connections, (tx) => leaveCall(tx, place, token, left)).catch(() => {});
    throw error;
  }
}

/** A lost connection rejects with an error that has no code, and would be taken for one of the `before` step. */
async function written<T>(connections: Connections, task: (tx: pg.PoolClient) => Promise<T>): Promise<T> {
  try {
    return await transaction(connections, task);
  } catch (cause) {
    if (cause instanceof SealedOutboxError || isServerAnswer(cause) || isProgrammingError(cause)) throw cause;
    throw new CallNotWrittenError({ cause });
  }
}

async function lookUp<Answer>(
  ask: (signal: AbortSignal) => Promise<LookupAnswer<Answer>>,
  signal: AbortSignal,
): Promise<Found<Answer>> {
  try {
    return await inTime(ask, signal);
  } catch (error) {
    if (isProgrammingError(error)) throw error;
    return { kind: 'unavailable' };
  }
}

async function makeCall<Answer>(call: (signal: AbortSignal) => Promise<Answer>, signal: AbortSignal): Promise<Answer> {
  try {
    return await inTime(call, signal);
  } catch (cause) {
    if (cause instanceof CallRefusedError || cause instanceof CallNotDoneError) throw cause;
    throw new CallUnansweredError({ cause });
  }
}

/** Does not trust the callee to look at the signal. */
async function inTime<T>(run: (signal: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener('abort', onAbort);
  try {
    return await Promise.race([run(signal), aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** What an error says about the call; `undefined` where it says nothing. A provider that did nothing speaks of this call, not of those before. */
function leftBy(error: unknown, before: Unfinished): Unfinished | undefined {
  if (error instanceof CallRefusedError || error instanceof CallNotDoneError) return before;
  if (error instanceof CallHeldError) return { kind: 'held', reason: 'CALL_UNANSWERED' };
  if (error instanceof AnswerNotRecordableError) return { kind: 'held', reason: error.code };
  return undefined;
}

function toResponse<Answer>(answer: Answer, toRecord: ((answer: Answer) => unknown) | undefined): string {
  let response: string;
  try {
    response = JSON.stringify(toRecord === undefined ? answer : toRecord(answer)) ?? 'null';
  } catch (cause) {
    throw new AnswerNotRecordableError('could not be written as JSON', { cause });
  }
  const bytes = Buffer.byteLength(response);
  if (bytes <= MAX_RESPONSE_BYTES) return response;
  throw new AnswerNotRecordableError(`has ${bytes} bytes as JSON, at most ${MAX_RESPONSE_BYTES} are kept`);
}
