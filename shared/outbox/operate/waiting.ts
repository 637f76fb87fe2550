import type { Queryable } from '../../database/index.ts';
import { call } from './call.ts';

/** A delivery that a relay will send, or is trying to. Never what is in it. */
export interface PendingDelivery {
  /** A 64-bit integer as text. */
  readonly position: string;
  readonly eventId: string;
  readonly destination: string;
  readonly type: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly sequence: bigint;
  readonly attempts: number;
  /** Code and text of the last refusal. */
  readonly lastError: string | null;
  /** Until its next try; 0: it is due. */
  readonly dueInSeconds: number;
  readonly createdAt: Date;
}

/**
 * What waits longest, of one destination or of all: a head that is being retried says here why. Role: `outbox_operator`; written to the audit.
 *
 * @param options.limit 1 to 1000; default 20
 * @throws OperationError: `DELIVERY_UNKNOWN` for a destination that is not installed, `OPERATION_ARGUMENT`, `OPERATION_FORBIDDEN`
 */
export async function listPending(
  db: Queryable,
  options: { readonly destination?: string; readonly limit?: number } = {},
): Promise<PendingDelivery[]> {
  const rows = await call(
    db,
    `select position, event_id as "eventId", destination_name as destination, type, aggregate_type as "aggregateType",
            aggregate_id as "aggregateId", sequence, attempts, last_error as "lastError", due_in as "dueInSeconds", created_at as "createdAt"
       from outbox.list_pending($1, $2)`,
    [options.destination ?? null, options.limit ?? 20],
  );
  return rows.map((row) => ({ ...row, sequence: BigInt(row.sequence) }));
}

/** Deliveries of one aggregate that wait behind a parked one. */
export interface BlockedChain {
  readonly destination: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly blocked: number;
  readonly fromSequence: bigint;
  /** Position of the parked delivery that they wait behind; null: orphaned, only `unblock` lets them go. */
  readonly head: string | null;
}

/**
 * Which aggregates are blocked, orphaned ones first. Role: `outbox_operator`; written to the audit.
 *
 * @param limit 1 to 1000
 * @throws OperationError: `OPERATION_ARGUMENT`, `OPERATION_FORBIDDEN`
 */
export async function listBlocked(db: Queryable, limit = 20): Promise<BlockedChain[]> {
  const rows = await call(
    db,
    `select destination_name as destination, aggregate_type as "aggregateType", aggregate_id as "aggregateId", blocked::float8 as blocked,
            from_sequence as "fromSequence", head
       from outbox.list_blocked($1)`,
    [limit],
  );
  return rows.map((row) => ({ ...row, fromSequence: BigInt(row.fromSequence) }));
}
