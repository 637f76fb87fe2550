import { type Erasure, ErasureError } from '../../../shared/sealing/index.ts';
import { keptSince } from '../../erasure.ts';
import { customerSubject } from '../catalogue/classes.ts';
import { type Answer, jsonAnswer, ProblemError, unavailable } from './problem.ts';
import type { Service } from './service.ts';

/**
 * Erases a customer, or asks for it where there is a delay. A repeat gets the same answer, as it stands then.
 *
 * @throws ProblemError 404, 503 where it is recorded and not done yet; SealingError where the vault or KMS is away, and nothing was recorded
 */
export async function eraseCustomer({ pool, erasure }: Service, id: string): Promise<Answer> {
  const subject = customerSubject(id);
  const since = await keptSince(pool, 'sample.kept_since', subject);
  const { outcome, classes } = await erased(erasure, { subject, ...(since && { since }) });
  if (outcome === 'unknown') throw new ProblemError('not-found', 'There is no customer with this id.');
  return jsonAnswer(outcome === 'done' ? 200 : 202, {
    customerId: id,
    outcome,
    classes: classes.map(({ class: name, state, until, keptUntil }) => ({
      class: name,
      state,
      until: until?.toISOString() ?? null,
      keptUntil: keptUntil?.toISOString() ?? null,
    })),
  });
}

async function erased(erasure: Erasure, request: Parameters<Erasure['erase']>[0]): ReturnType<Erasure['erase']> {
  try {
    return await erasure.erase(request);
  } catch (error) {
    if (!(error instanceof ErasureError) || error.code !== 'ERASURE_NOT_FINISHED') throw error;
    throw unavailable(
      'The erasure is recorded and goes on by itself. Repeat the request to hear what came of it.',
      error,
    );
  }
}
