import { isErased, isSealed, type Keyring, SealingError } from '../../../shared/sealing/index.ts';
import { openRow, sealedRowNames } from '../sealed-rows.ts';
import {
  keyReused,
  type PersonalAnswer,
  repeatedAnswer,
  type RequestHashes,
  type SealedRepeat,
} from './idempotency.ts';
import { type Answer, ProblemError } from './problem.ts';
import { IDEMPOTENCY } from './tables.ts';

/**
 * The answer to a repeat, opened. Never inside a transaction: keys may have to be loaded.
 *
 * @throws ProblemError 409 when the key was used for another request, 410 when the answer was erased with its person; SealingError
 */
export async function openRepeat(
  keyring: Keyring,
  key: string,
  { whole }: RequestHashes,
  { sealed, status, location }: SealedRepeat,
): Promise<Answer> {
  const row = { sealed_answer: sealed };
  const keys = await keyring.keysToOpen(sealedRowNames(row));
  const { sealed_answer: opened } = openRow(IDEMPOTENCY, key, row, keys);
  if (isErased(opened)) {
    throw new ProblemError(
      'answer-erased',
      'The request was carried out, and its answer was erased with the personal data in it. Read the resource itself.',
      { headers: location === null ? {} : { location } },
    );
  }
  if (isSealed(opened))
    throw new SealingError('SEALING_DENIED', 'This service may not open the answers that it keeps.');
  const answer = opened as PersonalAnswer;
  if (answer.requestSha256 !== whole.toString('base64')) throw keyReused();
  return repeatedAnswer(status, location, answer.body);
}
