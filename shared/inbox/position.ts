import type { Queryable } from '../database/index.ts';
import { OrderGapError, OrderLateError } from './errors.ts';
import { decide, lowestPositionBefore } from './order.ts';
import type { ConsumerIdentity } from './register.ts';

/** The place of an event in its aggregate's history. */
export interface StreamPlace {
  readonly aggregateType: string;
  readonly aggregateId: string;
  readonly sequence: bigint;
}

/**
 * Moves a strict consumer's position to this event, or refuses. Must be the first statement after the dedupe insert.
 *
 * It is one conditional upsert and not a read followed by a write, because two transactions that both read position 4
 * would both find themselves in order. The upsert locks the aggregate's row, whether its condition holds or not, until
 * the transaction ends: the second one waits, and then sees what the first one did.
 *
 * @throws OrderGapError (`ORDER_GAP`), OrderLateError (`ORDER_LATE`): roll back, nothing may stay
 */
export async function advancePosition(tx: Queryable, consumer: ConsumerIdentity, place: StreamPlace): Promise<void> {
  const { aggregateType, aggregateId, sequence } = place;
  const moved = await tx.query(
    `insert into inbox.stream_position as known (consumer, aggregate_type, aggregate_id, sequence)
     values ($1, $2, $3, $4::bigint)
     on conflict (consumer, aggregate_type, aggregate_id) do update set sequence = excluded.sequence
       where known.sequence < excluded.sequence and known.sequence >= $5::bigint
     returning (known.xmax = 0) as inserted`,
    [consumer.name, aggregateType, aggregateId, sequence.toString(), lowestPositionBefore(sequence).toString()],
  );
  const row = moved.rows[0] as { inserted: boolean } | undefined;
  // A row that this statement inserted has no xmax; one that it found and locked has.
  if (row !== undefined && !row.inserted) return;

  let position: bigint | null = null;
  if (row === undefined) {
    const { rows } = await tx.query(
      `select sequence from inbox.stream_position where consumer = $1 and aggregate_type = $2 and aggregate_id = $3`,
      [consumer.name, aggregateType, aggregateId],
    );
    position = BigInt((rows[0] as { sequence: string }).sequence);
  }
  const decision = decide(position, sequence, consumer.mode, consumer.startingPoint);
  switch (decision.kind) {
    case 'apply':
      return;
    case 'gap':
      throw new OrderGapError(decision.expected);
    case 'late':
      throw new OrderLateError(decision.expected);
  }
}
