import type { Queryable } from '../../database/index.ts';
import { call } from './operation-error.ts';

/**
 * Has a consumer try a held event again, with all its attempts: one whose handler failed, or that could not be read before a
 * deployment. It does so after its next batch, or when it is asked to drain. Role: `inbox_operator`; written to the audit with
 * `reason` (1 to 500 characters), as every act here.
 *
 * @throws HeldOperationError: `NOT_IN_STATE` where trying again changes nothing, and those that every act may throw
 * @example await retryHeld(db, 'ledger', eventId, 'corrected in release 42')
 */
export async function retryHeld(db: Queryable, consumer: string, eventId: string, reason: string): Promise<void> {
  await call(db, 'select inbox.retry_held($1, $2, $3)', [consumer, eventId, reason]);
}

/**
 * Has a consumer apply a held event all the same that came late or is older than its window. A late one is applied out of order: what it
 * writes may turn the state back.
 *
 * @throws HeldOperationError: `NOT_IN_STATE` when it is held for another reason, and those that every act may throw
 */
export async function releaseHeld(db: Queryable, consumer: string, eventId: string, reason: string): Promise<void> {
  await call(db, 'select inbox.release_held($1, $2, $3)', [consumer, eventId, reason]);
}

/**
 * Leaves a held event out for good: its effect never happens, and what waited behind it goes on. Cannot be undone.
 *
 * @returns whether it is done; false: something before it is missing, and it will be passed over in its turn
 * @throws HeldOperationError: those that every act may throw
 */
export async function skipHeld(db: Queryable, consumer: string, eventId: string, reason: string): Promise<boolean> {
  const [row] = await call(db, 'select inbox.skip_held($1, $2, $3) as done', [consumer, eventId, reason]);
  return row.done;
}

/** An aggregate as one consumer sees it. */
export interface ConsumedAggregate {
  readonly consumer: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
}

/**
 * Accepts that what is missing before the lowest waiting event of an aggregate never comes: the consumer goes on with that event. What comes after all
 * is held as late.
 *
 * @returns the consumer's new position
 * @throws HeldOperationError: `NOT_IN_STATE` when no gap is open, `HELD_EVENT_UNKNOWN` for an aggregate that the consumer has not seen
 */
export async function acceptGap(db: Queryable, aggregate: ConsumedAggregate, reason: string): Promise<bigint> {
  const { consumer, aggregateType, aggregateId } = aggregate;
  const [row] = await call(db, 'select inbox.accept_gap($1, $2, $3, $4) as position', [
    consumer,
    aggregateType,
    aggregateId,
    reason,
  ]);
  return BigInt(row.position);
}
