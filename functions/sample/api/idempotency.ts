import { createHash } from 'node:crypto';
import type { Queryable } from '../../../shared/database/index.ts';
import { type Answer, ProblemError } from './problem.ts';

/** What is said of two requests that are the same: method, path and body. */
export interface RequestHashes {
  /** SHA-256 of all of it. */
  readonly whole: Buffer;
  /** Without the body. */
  readonly place: Buffer;
}

export function requestHashes(method: string, path: string, body: Uint8Array): RequestHashes {
  const hash = (): ReturnType<typeof createHash> => createHash('sha256').update(`${method} ${path}\n`);
  return { whole: hash().update(body).digest(), place: hash().digest() };
}

/** How an answer is kept that holds personal data. Called inside the transaction: it only computes. */
export type SealAnswer = (answer: PersonalAnswer) => string;

/** What is sealed of such an answer. */
export interface PersonalAnswer {
  /** Of the whole request, base64. In clear it would tell whoever can guess the rest of a request a short number in it. */
  readonly requestSha256: string;
  /** JSON text, as it was sent. */
  readonly body: string;
}

/** A repeat of a request whose answer is sealed: to be opened after the transaction, because that may need keys. */
export interface SealedRepeat {
  readonly sealed: string;
  readonly status: number;
  readonly location: string | null;
}

/**
 * Does `work` once for a key, and answers a repeat of the same request with what was answered then.
 *
 * The key's row is written first, in the transaction of the work: a repeat that comes while the first is under way
 * waits for it at the row, and then finds its answer, or, where it was rolled back, does the work itself. Refused requests leave
 * no row, so the same key may be used again after a 4xx.
 *
 * @param seal where the answer holds personal data
 * @throws ProblemError 409 when the key was used for another request.
 */
export async function answerOnce(
  tx: Queryable,
  key: string,
  { whole, place }: RequestHashes,
  work: () => Promise<Answer>,
  seal?: SealAnswer,
): Promise<Answer | SealedRepeat> {
  const inserted = await tx.query(
    'insert into sample.idempotency (key, request_sha256) values ($1, $2) on conflict (key) do nothing',
    [key, seal === undefined ? whole : place],
  );
  if (inserted.rowCount === 1) {
    const answer = await work();
    const sealed = seal?.({ requestSha256: whole.toString('base64'), body: answer.body }) ?? null;
    await tx.query(
      'update sample.idempotency set status = $2, location = $3, body = $4, sealed_answer = $5 where key = $1',
      [key, answer.status, answer.headers['location'] ?? null, sealed === null ? answer.body : null, sealed],
    );
    return answer;
  }
  const { rows } = await tx.query(
    'select request_sha256, status, location, body::text as body, sealed_answer from sample.idempotency where key = $1',
    [key],
  );
  const [before] = rows;
  const expected = before?.sealed_answer === null ? whole : place;
  if (before === undefined || !expected.equals(before.request_sha256)) throw keyReused();
  const { status, location } = before as { status: number; location: string | null };
  return before.sealed_answer === null
    ? repeatedAnswer(status, location, before.body)
    : { sealed: before.sealed_answer, status, location };
}

export function repeatedAnswer(status: number, location: string | null, body: string): Answer {
  return {
    status,
    headers: {
      'content-type': 'application/json',
      ...(location === null ? {} : { location }),
      'idempotency-replayed': 'true',
    },
    body,
  };
}

export function keyReused(): ProblemError {
  return new ProblemError(
    'idempotency-key-reused',
    'This Idempotency-Key was used for another request. Use a new key for each request.',
  );
}
