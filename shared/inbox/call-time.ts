import { CallOptionsError } from './call-errors.ts';
import { OutOfTimeError } from './errors.ts';

/** Milliseconds. */
export interface CallTimes {
  /** How long the call may take, and the look-up. Default: 10,000, and never longer than the invocation has. */
  readonly timeoutMs?: number;
  /** With less time left nothing is asked or called: the event goes back. Default: 1,000. */
  readonly needsMs?: number;
  /** Only for `hold`: after so long a call that was given up cannot happen any more. Default: 60,000. */
  readonly happensWithinMs?: number;
}

/** The time of one `once`, within that of the invocation. */
export interface CallTime {
  /** For how long the call must be reserved. */
  readonly leaseMs: number;
  /**
   * Aborts when what is begun now must end.
   *
   * @throws OutOfTimeError (`OUT_OF_TIME`) where too little time is left to begin it
   */
  signal(): AbortSignal;
  /** Whether a call that began so long ago cannot happen any more. */
  isSettled(calledMsAgo: number): boolean;
}

/** A signal that aborts after so many milliseconds. */
export type AbortAfter = (ms: number) => AbortSignal;

/** Kept back from the invocation's time to write down what came of the call. */
const RECORD_MS = 500;
/** How much longer a lease lasts than what is done under it: the database's clock and ours differ in speed, not by seconds. */
const LEASE_MARGIN_MS = 5_000;

/**
 * Starts counting, which must be before the lease is asked for: so what is done under the lease ends before it does.
 *
 * @param remainingMs until the invocation is abandoned
 * @throws OutOfTimeError (`OUT_OF_TIME`), CallOptionsError (`CALL_OPTIONS`)
 */
export function startCallTime(
  remainingMs: () => number,
  times: CallTimes,
  withLookup: boolean,
  abortAfter: AbortAfter = (ms) => AbortSignal.timeout(ms),
): CallTime {
  const { timeoutMs = 10_000, needsMs = 1_000, happensWithinMs = 60_000 } = times;
  for (const [name, value] of Object.entries({ timeoutMs, needsMs, happensWithinMs })) {
    if (!(value > 0 && value <= 900_000)) throw new CallOptionsError(`${name} must be between 0 and 900,000 ms.`);
  }
  if (needsMs > timeoutMs) throw new CallOptionsError('needsMs must not be more than timeoutMs.');
  const remaining = remainingMs();
  const budget = Math.min(remaining - RECORD_MS, withLookup ? 2 * timeoutMs : timeoutMs);
  const leftMs = (): number => remainingMs() - (remaining - budget);
  const requireTime = (): void => {
    if (leftMs() < needsMs) throw new OutOfTimeError();
  };
  requireTime();
  return {
    leaseMs: Math.ceil(budget) + LEASE_MARGIN_MS,
    signal() {
      requireTime();
      return abortAfter(Math.ceil(Math.min(timeoutMs, leftMs())));
    },
    isSettled: (calledMsAgo) => calledMsAgo >= happensWithinMs,
  };
}
