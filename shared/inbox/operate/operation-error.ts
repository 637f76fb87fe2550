import type { Queryable, Row } from '../../database/index.ts';
import { SealedOutboxError } from '../../errors/index.ts';

/**
 * An operator's act on held events was refused. Nothing was changed. `code`:
 *
 * - `NOT_IN_STATE`: the event, or the aggregate, is not in the state that the act needs
 * - `HELD_EVENT_UNKNOWN`: there is no such held event or call, consumer or aggregate
 * - `OPERATION_ARGUMENT`: an argument is missing or malformed
 * - `TRANSACTION_ISOLATION`: the act was called in a transaction that is not READ COMMITTED
 * - `OPERATION_BUSY`: a lock was not free within 5 seconds: a consumer that applies events of the aggregate, or another act
 * - `OPERATION_FORBIDDEN`: the database user lacks the role `inbox_operator`
 */
export class HeldOperationError extends SealedOutboxError {}

const BY_SQLSTATE: Readonly<Record<string, readonly [code: string, next: string]>> = {
  IB006: ['NOT_IN_STATE', 'List what is held and look again.'],
  IB007: ['HELD_EVENT_UNKNOWN', 'List what is held: it names consumer and event.'],
  IB008: ['OPERATION_ARGUMENT', ''],
  IB009: ['TRANSACTION_ISOLATION', 'Call it by itself, or begin isolation level read committed.'],
  '55P03': [
    'OPERATION_BUSY',
    'Nothing was changed. Try again; if it stays so, look for an open transaction in pg_stat_activity.',
  ],
  '42501': ['OPERATION_FORBIDDEN', 'Nothing was changed. Connect as a user with the role inbox_operator.'],
};

/** Rows of one of the operators' functions of `0002_held_events.sql`; its refusals as the library's errors. */
export async function call(db: Queryable, text: string, values: readonly unknown[]): Promise<Row[]> {
  try {
    return (await db.query(text, values)).rows;
  } catch (cause) {
    throw heldOperationErrorOf(cause);
  }
}

function heldOperationErrorOf(cause: unknown): unknown {
  if (!(cause instanceof Error) || !('code' in cause) || typeof cause.code !== 'string') return cause;
  const known = BY_SQLSTATE[cause.code];
  if (known === undefined) return cause;
  const [code, next] = known;
  // The server's hint is nearer to the case than what holds for all of its kind.
  const hint = 'hint' in cause && typeof cause.hint === 'string' ? cause.hint : next;
  return new HeldOperationError(code, `${cause.message} ${hint}`.trim(), { cause });
}
