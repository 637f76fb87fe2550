import type { Queryable } from '../../database/index.ts';
import type { CallPlace } from '../call-key.ts';
import { call } from './operation-error.ts';

/** A call that waits for a person. */
export interface HeldCall extends CallPlace {
  /** Under which the provider knows it. */
  readonly idempotencyKey: string;
  /** A code: `CALL_UNANSWERED`, `ANSWER_NOT_RECORDABLE`. */
  readonly reason: string;
  /** How often it was made. */
  readonly calls: number;
  readonly calledAt: Date;
  readonly heldAt: Date;
}

/** Calls that wait for a person, the oldest first, at most 1,000. Needs the role `inbox_operator`, as the two below. */
export async function listHeldCalls(db: Queryable, atMost = 100): Promise<HeldCall[]> {
  return call(
    db,
    `select consumer, event_id as "eventId", name, idempotency_key as "idempotencyKey", reason, calls,
            called_at as "calledAt", held_at as "heldAt"
       from inbox.list_held_calls($1)`,
    [atMost],
  );
}

/**
 * The call happened: `answer` is what the event's next delivery is given, as `toRecord` would have made it. Where the event is held because
 * of the call, it is tried again as `retryHeld` has it.
 *
 * @param reason for the audit, 1–500 characters
 * @throws HeldOperationError: `NOT_IN_STATE` when the call is not held, and those that every act may throw
 */
export async function recordHeldCall(db: Queryable, held: CallPlace, answer: unknown, reason: string): Promise<void> {
  const { consumer, eventId, name } = held;
  const response = JSON.stringify(answer) ?? 'null';
  await call(db, 'select inbox.record_held_call($1, $2, $3, $4::json, $5)', [
    consumer,
    eventId,
    name,
    response,
    reason,
  ]);
}

/**
 * The call did not happen, or may happen twice: the event's next delivery makes it, with the same key. Otherwise as `recordHeldCall`.
 *
 * @throws as `recordHeldCall`
 */
export async function repeatHeldCall(db: Queryable, held: CallPlace, reason: string): Promise<void> {
  const { consumer, eventId, name } = held;
  await call(db, 'select inbox.repeat_held_call($1, $2, $3, $4)', [consumer, eventId, name, reason]);
}
