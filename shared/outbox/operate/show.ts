import type { Queryable } from '../../database/index.ts';
import { call } from './call.ts';
import type { ParkedDelivery } from './list-parked.ts';

/** One parked delivery in full. */
export interface ShownDelivery extends ParkedDelivery {
  /** Number of the replay that it belongs to; 0: a live one. */
  readonly replay: number;
  /** Upper bound of the message's size. */
  readonly bytes: number;
  /** Null where the event's row is gone, as what follows. */
  readonly occurredAt: Date | null;
  /** JSON as it was written, sealed values sealed; only where it was asked for. */
  readonly data: string | null;
  readonly metadata: string | null;
}

/**
 * Shows why a delivery is parked, and what the event says only where it is asked for. Role: `outbox_operator`; written to the audit, the wish for
 * the data too: it may say something of persons.
 *
 * @throws OperationError: `DELIVERY_UNKNOWN` when no such delivery is parked, `OPERATION_FORBIDDEN`
 */
export async function showParked(
  db: Queryable,
  position: string,
  { withData = false }: { readonly withData?: boolean } = {},
): Promise<ShownDelivery> {
  const [row] = await call(
    db,
    `select $1::text as position, event_id as "eventId", destination_name as destination, type, schema_version as "schemaVersion",
            when_parked as "whenParked", aggregate_type as "aggregateType", aggregate_id as "aggregateId", sequence, attempts, run, replay,
            last_error as "lastError", bytes, occurred_at as "occurredAt", created_at as "createdAt",
            blocked_behind::float8 as "blockedBehind", data, metadata
       from outbox.show_parked($1::text::bigint, $2)`,
    [position, withData],
  );
  return { ...row, sequence: BigInt(row.sequence) };
}

/** What of an aggregate has not left for a destination yet. */
export interface UnfinishedDelivery {
  readonly position: string;
  readonly eventId: string;
  readonly destination: string;
  readonly type: string;
  readonly sequence: bigint;
  readonly state: 'pending' | 'parked' | 'blocked';
  readonly attempts: number;
  readonly lastError: string | null;
  readonly createdAt: Date;
}

export interface ShownAggregate {
  /** Of the last event that was written. */
  readonly lastSequence: bigint;
  /** From the lowest sequence on. What is not here is published or set aside, or has no route there. */
  readonly unfinished: readonly UnfinishedDelivery[];
}

/**
 * How far an aggregate has come. Role: `outbox_operator`; written to the audit.
 *
 * @param limit 1 to 1000 unfinished deliveries
 * @throws OperationError: `DELIVERY_UNKNOWN` for an aggregate that has no event, `OPERATION_FORBIDDEN`
 */
export async function showAggregate(
  db: Queryable,
  aggregateType: string,
  aggregateId: string,
  limit = 100,
): Promise<ShownAggregate> {
  const rows = await call(
    db,
    `select last_sequence as "lastSequence", position, event_id as "eventId", destination_name as destination, type, sequence, state,
            attempts, last_error as "lastError", created_at as "createdAt"
       from outbox.show_aggregate($1, $2, $3)`,
    [aggregateType, aggregateId, limit],
  );
  return {
    lastSequence: BigInt(rows[0]?.lastSequence ?? 0),
    unfinished: rows
      .filter(({ position }) => position !== null)
      .map((row) => ({
        position: row.position,
        eventId: row.eventId,
        destination: row.destination,
        type: row.type,
        sequence: BigInt(row.sequence),
        state: row.state,
        attempts: row.attempts,
        lastError: row.lastError,
        createdAt: row.createdAt,
      })),
  };
}
