import type { Queryable } from '../../database/index.ts';
import { call } from './call.ts';

/** An aggregate at one destination. */
export interface BlockedAggregate {
  readonly destination: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
}

/**
 * Lets go what is blocked although nothing is parked below it, and returns how many deliveries that were. Redrive and skip do so by themselves;
 * this is for what `readLag` counts as `orphaned`. Role: `outbox_operator`; written to the audit with `reason` (1 to 500 characters).
 *
 * @throws OperationError: `NOT_IN_STATE` when nothing is blocked, or when its head is still parked (the message names that one's position),
 * `DELIVERY_UNKNOWN` for a destination that is not installed, and those that every act may throw
 */
export async function unblock(db: Queryable, aggregate: BlockedAggregate, reason: string): Promise<number> {
  const { destination, aggregateType, aggregateId } = aggregate;
  const [row] = await call(db, 'select outbox.unblock($1, $2, $3, $4) as unblocked', [
    destination,
    aggregateType,
    aggregateId,
    reason,
  ]);
  return row.unblocked;
}
