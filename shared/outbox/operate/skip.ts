import type { Queryable } from '../../database/index.ts';
import { call } from './call.ts';

export interface Skipped {
  /** Position of the tombstone that goes out in its place; null where a tombstone itself was skipped. */
  readonly tombstone: string | null;
  /** Deliveries that were blocked behind it and may now go after the tombstone. */
  readonly unblocked: number;
}

/**
 * Leaves a parked delivery out for good, at this destination. A tombstone takes its place (type `outbox.skipped`, same sequence, no data), over
 * which strict consumers move on. The event itself stays in `outbox.event`. Cannot be undone: later events will have been sent.
 * Role: `outbox_operator`; written to the audit with `reason` (1 to 500 characters).
 *
 * Skipping a parked tombstone accepts the gap: nothing takes its place, and a strict consumer has to be told.
 *
 * @param position of `listParked`
 * @throws OperationError: `NOT_IN_STATE` when it is not parked, `DELIVERY_UNKNOWN`, and those that every act may throw
 */
export async function skip(db: Queryable, position: string, reason: string): Promise<Skipped> {
  const [row] = await call(db, 'select tombstone, unblocked from outbox.skip($1, $2)', [position, reason]);
  return row;
}
