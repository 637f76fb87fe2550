import type { Queryable } from '../../database/index.ts';
import type { HeldReason } from '../hold.ts';
import { call } from './operation-error.ts';

/** An event that waits in `inbox.held_event`: where it belongs and why it is held; never what is in it. */
export interface HeldEvent {
  /** Where it stands in the list: `after` of a page that begins behind it. */
  readonly place: string;
  readonly consumer: string;
  /** With `consumer`, what the acts take. Of a message that names no event it is the message's own id. */
  readonly eventId: string;
  /** This and the aggregate are empty where the message is no event of ours. */
  readonly type: string;
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly sequence: bigint;
  readonly reason: HeldReason;
  /** Failures of its handler. */
  readonly attempts: number;
  /** Codes and names of the last failure. */
  readonly lastError: string | null;
  /** What an operator asked for, and the consumer has not done yet. */
  readonly wanted: 'retry' | 'release' | 'skip' | null;
  readonly heldAt: Date;
  /** Events of its aggregate that wait behind it. */
  readonly blockedBehind: number;
}

export interface HeldPage {
  readonly held: readonly HeldEvent[];
  /** `after` of the next page; null when this was the last. */
  readonly next: string | null;
}

export interface ListHeldOptions {
  /** Default: all. */
  readonly consumer?: string;
  /** Default: all. */
  readonly reason?: HeldReason;
  /** 1 to 1000; default 100. */
  readonly limit?: number;
  /** `next` of the page before. */
  readonly after?: string;
}

/**
 * What is held, oldest first, a page at a time. Role: `inbox_operator`; each call is written to the audit.
 *
 * @throws HeldOperationError: `HELD_EVENT_UNKNOWN` for a consumer that was never started, `OPERATION_ARGUMENT`, `OPERATION_FORBIDDEN`
 */
export async function listHeld(db: Queryable, options: ListHeldOptions = {}): Promise<HeldPage> {
  const { consumer = null, reason = null, limit = 100, after = null } = options;
  const rows = await call(
    db,
    `select place, consumer_name as consumer, event_id as "eventId", type, aggregate_type as "aggregateType",
            aggregate_id as "aggregateId", sequence, reason, attempts, last_error as "lastError", wanted,
            held_at as "heldAt", blocked_behind::float8 as "blockedBehind"
       from inbox.list_held($1, $2, $3, $4)`,
    [consumer, reason, after, limit],
  );
  return {
    held: rows.map((row) => ({ ...row, sequence: BigInt(row.sequence) })),
    next: rows.length < limit ? null : (rows.at(-1)?.place ?? null),
  };
}
