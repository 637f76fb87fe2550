import type { Queryable } from '../../database/index.ts';
import { call } from './call.ts';

/** A delivery that waits for a person. Where it belongs and why it was refused; never what is in it. */
export interface ParkedDelivery {
  /** What `redrive` and `skip` take: a 64-bit integer as text. */
  readonly position: string;
  readonly eventId: string;
  readonly destination: string;
  /** This and the aggregate are empty where the event's row is gone. */
  readonly type: string;
  readonly schemaVersion: number;
  readonly whenParked: 'block' | 'skip';
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly sequence: bigint;
  readonly attempts: number;
  readonly run: number;
  /** Code and text of the last refusal. */
  readonly lastError: string | null;
  readonly createdAt: Date;
  /** Deliveries of the same aggregate that wait behind it. */
  readonly blockedBehind: number;
}

export interface ParkedPage {
  readonly parked: readonly ParkedDelivery[];
  /** `after` of the next page; null when this was the last. */
  readonly next: string | null;
}

export interface ListParkedOptions {
  /** Default: all. */
  readonly destination?: string;
  /** 1 to 1000; default 100. */
  readonly limit?: number;
  /** `next` of the page before. */
  readonly after?: string;
}

/**
 * What is parked, oldest first, a page at a time. The page is found by position and not by an offset, so nothing is left out or shown twice when
 * some of it is redriven meanwhile. Role: `outbox_operator`; each call is written to the audit.
 *
 * @throws OperationError: `DELIVERY_UNKNOWN` for a destination that is not installed, `OPERATION_ARGUMENT`, `OPERATION_FORBIDDEN`
 */
export async function listParked(db: Queryable, options: ListParkedOptions = {}): Promise<ParkedPage> {
  const { destination = null, limit = 100, after = null } = options;
  const rows = await call(
    db,
    `select position, event_id as "eventId", destination_name as destination, type, schema_version as "schemaVersion",
            when_parked as "whenParked", aggregate_type as "aggregateType", aggregate_id as "aggregateId", sequence, attempts, run,
            last_error as "lastError", created_at as "createdAt", blocked_behind::float8 as "blockedBehind"
       from outbox.list_parked($1, $2, $3)`,
    [destination, after, limit],
  );
  return {
    parked: rows.map((row) => ({ ...row, sequence: BigInt(row.sequence) })),
    next: rows.length < limit ? null : (rows.at(-1)?.position ?? null),
  };
}
