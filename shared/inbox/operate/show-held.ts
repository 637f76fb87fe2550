import type { Queryable } from '../../database/index.ts';
import type { HeldEvent } from './list-held.ts';
import { call } from './operation-error.ts';

/** One held event, and where its aggregate stands. */
export interface ShownEvent extends Omit<HeldEvent, 'blockedBehind' | 'place'> {
  readonly eventTime: Date;
  /** Whether later events of its aggregate wait behind it. */
  readonly blocks: boolean;
  /** When a failing one is tried again, as PostgreSQL writes it; `infinity`: when an operator says so. */
  readonly dueAt: string | null;
  /** The last sequence that was applied; null where nothing was. */
  readonly position: bigint | null;
  /** The sequence that would be applied next. */
  readonly expected: bigint;
  readonly bytes: number;
  /** The message as it came; only where it was asked for. */
  readonly body: string | null;
}

/**
 * Shows why an event is held and where its aggregate stands. Role: `inbox_operator`; written to the audit, the wish for the body too: a body may
 * say something of persons.
 *
 * @throws HeldOperationError: `HELD_EVENT_UNKNOWN`, `OPERATION_FORBIDDEN`
 */
export async function showHeld(
  db: Queryable,
  consumer: string,
  eventId: string,
  { withBody = false }: { readonly withBody?: boolean } = {},
): Promise<ShownEvent> {
  const [row] = await call(
    db,
    `select $1::text as consumer, $2::uuid as "eventId", type, aggregate_type as "aggregateType", aggregate_id as "aggregateId",
            sequence, event_time as "eventTime", reason, attempts, last_error as "lastError", wanted, blocks,
            due_at as "dueAt", held_at as "heldAt", nullif(position, 0) as position, expected, bytes, body
       from inbox.show_held($1, $2, $3)`,
    [consumer, eventId, withBody],
  );
  return {
    ...row,
    sequence: BigInt(row.sequence),
    position: row.position === null ? null : BigInt(row.position),
    expected: BigInt(row.expected),
  };
}
