import type { Queryable } from '../../database/index.ts';
import { call } from './call.ts';

export interface Redriven {
  /** `blocked` where another delivery of the aggregate is parked below it: it goes when that one is redriven or skipped. */
  readonly state: 'pending' | 'blocked';
  /** How often it was redriven. Part of the deduplication id, so that the queue's five-minute window does not swallow it. */
  readonly run: number;
  /** Deliveries that were blocked behind it and may now go after it. */
  readonly unblocked: number;
}

/**
 * Sends a parked delivery again: due at once, with all its attempts. The body is the same, with the same event id, so a consumer that had it
 * after all applies nothing twice. Role: `outbox_operator`; written to the audit with `reason` (1 to 500 characters).
 *
 * @param position of `listParked`
 * @throws OperationError: `NOT_IN_STATE` when it is not parked, `DELIVERY_UNKNOWN`, and those that every act may throw
 * @example await redrive(db, '4711', 'the queue takes 1 MiB now, INC-7')
 */
export async function redrive(db: Queryable, position: string, reason: string): Promise<Redriven> {
  const [row] = await call(db, 'select state, run, unblocked from outbox.redrive($1, $2)', [position, reason]);
  return row;
}
