import { SealedOutboxError } from '../../../shared/errors/index.ts';
import type { Violation } from '../../../shared/events/index.ts';
import { KeysNotPreparedError, sealingAnswer, SealingRefusedError } from '../../../shared/sealing/index.ts';

/** The kinds of problem that this API answers with (RFC 9457); the name is the last part of `type`. */
const KINDS = {
  'invalid-request': { status: 400, title: 'The request is not valid' },
  'not-found': { status: 404, title: 'Not found' },
  'method-not-allowed': { status: 405, title: 'Method not allowed' },
  overpayment: { status: 409, title: 'The payment is more than what is owed' },
  'customer-erased': { status: 409, title: 'The customer was erased' },
  'idempotency-key-reused': { status: 409, title: 'The idempotency key belongs to another request' },
  'answer-erased': { status: 410, title: 'The answer was erased' },
  'content-too-large': { status: 413, title: 'The body is too large' },
  'unsupported-media-type': { status: 415, title: 'The body is not JSON' },
  internal: { status: 500, title: 'Something went wrong' },
  unavailable: { status: 503, title: 'Temporarily unavailable' },
} as const;

export type ProblemKind = keyof typeof KINDS;

/** A request that is answered with a problem. The detail is for the caller: it never tells of the inside. */
export class ProblemError extends SealedOutboxError {
  readonly kind: ProblemKind;
  readonly violations: readonly Violation[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    kind: ProblemKind,
    detail: string,
    more: {
      readonly violations?: readonly Violation[];
      readonly headers?: Readonly<Record<string, string>>;
      readonly cause?: unknown;
    } = {},
  ) {
    super(kind, detail, 'cause' in more ? { cause: more.cause } : undefined);
    this.kind = kind;
    this.violations = more.violations ?? [];
    this.headers = more.headers ?? {};
  }
}

/** @param retryAfter how long a caller should wait where something is away or overloaded. Seconds */
export function unavailable(detail: string, cause: unknown, retryAfter = 5): ProblemError {
  return new ProblemError('unavailable', detail, { headers: { 'retry-after': String(retryAfter) }, cause });
}

/** What is answered where personal data could not be sealed or opened; undefined for all other errors. */
export function sealingProblem(error: unknown): ProblemError | undefined {
  if (error instanceof SealingRefusedError) {
    return new ProblemError('invalid-request', 'A field of the body cannot be sealed.', {
      violations: [{ pointer: error.pointer, detail: 'must not be a sealed value' }],
      cause: error,
    });
  }
  // This API names the persons of each request itself: what is missing has become too old under way.
  if (error instanceof KeysNotPreparedError) {
    return unavailable('The request took too long. Repeat it with the same key.', error);
  }
  const answer = sealingAnswer(error);
  if (answer === null) return undefined;
  return answer.status === 503
    ? unavailable(
        'The keys of personal data cannot be used now. Repeat the request with the same key.',
        error,
        answer.retryAfter,
      )
    : new ProblemError('internal', 'Personal data could not be sealed or opened. The failure was logged.', {
        cause: error,
      });
}

/** What a handler answers. */
export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON text. */
  readonly body: string;
}

/** @param path that holds nothing but names of the API and ids */
export function problemAnswer(error: ProblemError, path: string): Answer {
  const { status, title } = KINDS[error.kind];
  return {
    status,
    headers: { 'content-type': 'application/problem+json', ...error.headers },
    body: JSON.stringify({
      type: `/problems/${error.kind}`,
      title,
      status,
      detail: error.message,
      instance: path,
      ...(error.violations.length > 0 ? { errors: error.violations } : {}),
    }),
  };
}

/** An answer of 2xx. */
export function jsonAnswer(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): Answer {
  return { status, headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) };
}
