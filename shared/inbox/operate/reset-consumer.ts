import type { Queryable } from '../../database/index.ts';
import { call } from './operation-error.ts';

/** Which aggregates: all, those of a type, or one. */
export interface ResetScope {
  readonly aggregateType?: string;
  /** Only together with `aggregateType`. */
  readonly aggregateId?: string;
}

export interface ConsumerReset {
  /** Aggregates whose position was removed. */
  readonly positions: number;
  /** Events that were held already and wait for the end of the run now. */
  readonly held: number;
  /** Raised by each reset. */
  readonly generation: number;
}

/**
 * Makes a consumer forget the aggregates in scope and accept the messages of one replay for them, whatever their age. Until `endReplay`, live events
 * of these aggregates are held (`replay`). Removing the effects is yours: after this, and before the replay is resumed. One transaction; it
 * waits for those of the consumer, and they for it: about 5 seconds for a million aggregates. Role: `inbox_operator`; written to the audit with `reason`.
 *
 * @throws HeldOperationError: `NOT_IN_STATE` while the consumer is in a replay, `HELD_EVENT_UNKNOWN` for a consumer that has not registered,
 * and those that every act may throw
 * @example await resetConsumer(db, 'ledger', { aggregateType: 'invoice' }, replay, 'ledger was wrong, INC-7')
 */
export async function resetConsumer(
  db: Queryable,
  consumer: string,
  scope: ResetScope,
  replay: number,
  reason: string,
): Promise<ConsumerReset> {
  const [row] = await call(
    db,
    'select positions::float8 as positions, held::float8 as held, generation from inbox.reset_consumer($1, $2, $3, $4)',
    [
      consumer,
      JSON.stringify({ aggregate_type: scope.aggregateType, aggregate_id: scope.aggregateId }),
      replay,
      reason,
    ],
  );
  return row;
}

/**
 * Ends the consumer's run: messages of the replay are acknowledged from now on without effect, and the live events that were held are applied in order
 * at its next invocations (or by `drainHeld`). Call it when the replay is done and the consumer's queue has given out what it sent.
 *
 * @returns how many held events may go now
 * @throws HeldOperationError: `NOT_IN_STATE` when the consumer is in no replay, and those that every act may throw
 */
export async function endReplay(db: Queryable, consumer: string, reason: string): Promise<number> {
  const [row] = await call(db, 'select inbox.end_replay($1, $2)::float8 as released', [consumer, reason]);
  return row.released;
}
