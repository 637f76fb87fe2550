import { createHash } from 'node:crypto';
import type { Queryable } from '../../../shared/database/index.ts';
import { type Answer, ProblemError } from './problem.ts';

/** SHA-256 of what makes two requests the same: method, path and body. */
export function requestHash(method: string, path: string, body: Uint8Array): Buffer {
  return createHash('sha256').update(`${method} ${path}\n`).update(body).digest();
}

/**
 * Does `work` once for a key, and answers a repeat of the same request with what was answered then.
 *
 * The key's row is written first, in the transaction of the work: a repeat that comes while the first is under way
 * waits for it at the row, and then finds its answer, or, where it was rolled back, does the work itself. Refused requests leave
 * no row, so the same key may be used again after a 4xx.
 *
 * @throws ProblemError 409 when the key was used for another request.
 */
export async function answerOnce(
  tx: Queryable,
  key: string,
  hash: Buffer,
  work: () => Promise<Answer>,
): Promise<Answer> {
  const inserted = await tx.query(
    'insert into sample.idempotency (key, request_sha256) values ($1, $2) on conflict (key) do nothing',
    [key, hash],
  );
  if (inserted.rowCount === 1) {
    const answer = await work();
    await tx.query('update sample.idempotency set status = $2, location = $3, body = $4 where key = $1', [
      key,
      answer.status,
      answer.headers['location'] ?? null,
      answer.body,
    ]);
    return answer;
  }
  const { rows } = await tx.query(
    'select request_sha256, status, location, body::text as body from sample.idempotency where key = $1',
    [key],
  );
  const [before] = rows;
  if (before === undefined || !hash.equals(before.request_sha256)) {
    throw new ProblemError(
      'idempotency-key-reused',
      'This Idempotency-Key was used for another request. Use a new key for each request.',
    );
  }
  return {
    status: before.status,
    headers: {
      'content-type': 'application/json',
      ...(before.location === null ? {} : { location: before.location }),
      'idempotency-replayed': 'true',
    },
    body: before.body,
  };
}
