import type { PublishResult } from '../publish/publisher.ts';
import { backoff } from './backoff.ts';
import { failureClass } from './failure-class.ts';

/** What becomes of a delivery after a try. */
export type Outcome =
  | { readonly kind: 'published'; readonly messageId: string }
  /** Charged with an attempt, due again after `delayMs`. */
  | { readonly kind: 'retry'; readonly delayMs: number; readonly error: string }
  /** Waits for a person. */
  | { readonly kind: 'parked'; readonly error: string }
  /** Not its fault: nothing is charged or written; the destination waits. */
  | { readonly kind: 'outage'; readonly code: string };

export interface RetryPolicy {
  /** Tries that a delivery gets before it is parked. */
  readonly attempts: number;
  /** First and longest wait, milliseconds. */
  readonly baseMs: number;
  readonly capMs: number;
}

export const RETRY_POLICY: RetryPolicy = { attempts: 12, baseMs: 1_000, capMs: 300_000 };

/**
 * Decides by the code. A code that nobody listed charges the message only when another one passed at the same destination within the
 * minute: then the destination works, and it is the message. Otherwise a new kind of outage would park everything.
 */
export function outcomeOf(
  result: PublishResult,
  delivery: { readonly attempts: number },
  context: { readonly anotherPassedLately: boolean; readonly policy: RetryPolicy; readonly random: () => number },
): Outcome {
  if (result.ok) return { kind: 'published', messageId: result.messageId };
  const error = `${result.code}: ${result.reason}`.slice(0, 500);
  switch (failureClass(result.code)) {
    case 'hopeless':
      return { kind: 'parked', error };
    case 'outage':
      return { kind: 'outage', code: result.code };
    case 'unknown': {
      if (!context.anotherPassedLately) return { kind: 'outage', code: result.code };
      const attempt = delivery.attempts + 1;
      if (attempt >= context.policy.attempts) return { kind: 'parked', error };
      const { baseMs, capMs } = context.policy;
      return { kind: 'retry', delayMs: backoff(attempt, baseMs, capMs, context.random), error };
    }
  }
}
