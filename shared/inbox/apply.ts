import type pg from 'pg';
import { type Connections, transaction } from '../database/index.ts';
import { type ReceivedEvent, RESERVED_TYPE_PREFIX } from '../events/index.ts';
import { takeEvent } from './dedupe.ts';
import { HandlerFailedError, OrderLateError } from './errors.ts';
import { isServerAnswer, isStaleWriter } from './failure.ts';
import { beforeContext, handlerContext } from './handler-context.ts';
import type { AnySteps } from './handlers.ts';
import { decide } from './order.ts';
import { advancePosition } from './position.ts';
import type { ConsumerIdentity } from './register.ts';

/**
 * What became of an event that needs no return.
 * - `effect`: its handler's work is committed
 * - `repeat`: it had been applied before
 * - `ignored`: the consumer has no handler for its type
 * - `too-old`: no upcaster takes its version, and the type's `older` is `ignore`
 */
export type Applied =
  | { readonly kind: 'effect'; readonly ageSeconds: number }
  | { readonly kind: 'repeat' }
  | { readonly kind: 'ignored' }
  | { readonly kind: 'too-old' };

/**
 * Applies an event once: dedupe row, position and the handler's effect are committed together or not at all.
 *
 * A strict consumer moves over a type that it does not handle, because the aggregate's next event follows that one; a
 * consumer without order has no reason to write anything about it.
 *
 * @param monotonicMs a clock that only serves to measure how long the handler took
 * @throws what `classifyFailure` sorts; the transaction is then rolled back
 */
export async function applyOnce(
  connections: Connections,
  consumer: ConsumerIdentity,
  event: ReceivedEvent,
  steps: AnySteps | undefined,
  monotonicMs: () => number,
): Promise<Applied> {
  if (steps === undefined && consumer.mode === 'any') return { kind: 'ignored' };
  const before = steps?.before === undefined ? undefined : await runBefore(connections, consumer, steps, event);
  let takenAt = 0;
  const taken = await transaction(connections, async (tx) => {
    try {
      const age = await takeEvent(tx, consumer.name, event);
      takenAt = monotonicMs();
      if (age === null) return null;
      if (consumer.mode === 'strict') await advance(tx, consumer, event);
      if (steps !== undefined) await runHandler(steps, event, tx, before);
      return age;
    } catch (error) {
      // After a fail-over a pooled connection may still lead to the old writer, and would refuse every retry.
      if (isStaleWriter(error)) tx.release(true);
      throw error;
    }
  });
  if (taken === null) return { kind: 'repeat' };
  if (steps === undefined) return { kind: 'ignored' };
  return { kind: 'effect', ageSeconds: Math.max(0, taken + (monotonicMs() - takenAt) / 1000) };
}

/**
 * A tombstone that comes late has nothing to say: the event whose place it took had arrived after all, its acknowledgement was lost, and
 * somebody skipped it. Returned, it would only end as a dead letter.
 */
async function advance(tx: pg.PoolClient, consumer: ConsumerIdentity, event: ReceivedEvent): Promise<void> {
  try {
    await advancePosition(tx, consumer, event);
  } catch (error) {
    if (!(error instanceof OrderLateError && event.type.startsWith(RESERVED_TYPE_PREFIX))) throw error;
  }
}

/** Only for an event that will be applied as far as a plain read can tell: a repeat, or one out of order, must not call anybody. */
async function runBefore(
  connections: Connections,
  consumer: ConsumerIdentity,
  steps: AnySteps,
  event: ReceivedEvent,
): Promise<unknown> {
  const client = await connections.connect();
  let row: { processed: boolean; position: string | null };
  try {
    const { rows } = await client.query(
      `select exists (select from inbox.processed_event where consumer = $1 and event_id = $2) as processed,
              (select sequence from inbox.stream_position
                where consumer = $1 and aggregate_type = $3 and aggregate_id = $4) as position`,
      [consumer.name, event.id, event.aggregateType, event.aggregateId],
    );
    row = rows[0] as typeof row;
  } finally {
    client.release();
  }
  const position = row.position === null ? null : BigInt(row.position);
  if (row.processed || decide(position, event.sequence, consumer.mode, consumer.startingPoint).kind !== 'apply') {
    return undefined;
  }
  try {
    return await steps.before?.(event, beforeContext(event));
  } catch (cause) {
    throw new HandlerFailedError(cause, false);
  }
}

async function runHandler(steps: AnySteps, event: ReceivedEvent, tx: pg.PoolClient, before: unknown): Promise<void> {
  try {
    await steps.handle(event, handlerContext(event, tx, before));
  } catch (cause) {
    throw new HandlerFailedError(cause, !(isServerAnswer(cause) || (await isAlive(tx))));
  }
}

/** A lost connection rejects with an error that has no code. In a failed transaction an answer is an error, too. */
async function isAlive(tx: pg.PoolClient): Promise<boolean> {
  try {
    await tx.query('select 1');
    return true;
  } catch (error) {
    return isServerAnswer(error);
  }
}
