import { KeysNotPreparedError, SealingError, SealingRefusedError, type SealingErrorCode } from './errors.ts';

/** What an HTTP API says where sealing or opening has failed. Nothing of the error's message belongs in it. */
export interface SealingAnswer {
  readonly status: 400 | 500 | 503;
  /** For the header `Retry-After`, where a later call may succeed without anybody's doing. Seconds. */
  readonly retryAfter?: number;
}

const ANSWERS: Readonly<Record<SealingErrorCode, SealingAnswer>> = {
  SEALING_THROTTLED: { status: 503, retryAfter: 5 },
  SEALING_UNAVAILABLE: { status: 503, retryAfter: 5 },
  // Until somebody has switched it on again.
  SEALING_KEY_DISABLED: { status: 503, retryAfter: 60 },
  // No client can do anything about these: an operator looks at the code in the log.
  SEALING_DENIED: { status: 500 },
  SEALING_KEY_UNKNOWN: { status: 500 },
  SEALING_TAMPERED: { status: 500 },
  SEALING_MALFORMED: { status: 500 },
  SEALING_LIMIT: { status: 500 },
};

/**
 * The answer to a request whose work failed with one of the errors of sealing; null for any other error. That a person is erased is no
 * error: show that there is nothing.
 */
export function sealingAnswer(error: unknown): SealingAnswer | null {
  if (error instanceof SealingError) return ANSWERS[error.code];
  // A value that JSON would change came from the client; what was not prepared, was forgotten by the program.
  if (error instanceof SealingRefusedError) return { status: 400 };
  return error instanceof KeysNotPreparedError ? { status: 500 } : null;
}
