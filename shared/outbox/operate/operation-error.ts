import { SealedOutboxError } from '../../errors/index.ts';

/**
 * An operator's act was refused. Nothing was changed. `code`:
 *
 * - `NOT_IN_STATE`: the delivery, or the aggregate, is not in the state that the act needs: somebody else was quicker, or it is another one
 * - `DELIVERY_UNKNOWN`: there is no such delivery or destination
 * - `OPERATION_ARGUMENT`: an argument is missing or malformed
 * - `TRANSACTION_ISOLATION`: the act was called in a transaction that is not READ COMMITTED
 * - `OPERATION_BUSY`: a lock was not free within 5 seconds: a relay that settles, or another act in an open transaction
 * - `OPERATION_FORBIDDEN`: the database user lacks the role `outbox_operator`
 */
export class OperationError extends SealedOutboxError {}

const BY_SQLSTATE: Readonly<Record<string, readonly [code: string, next: string]>> = {
  OB006: ['NOT_IN_STATE', 'List what is parked and look again.'],
  OB007: ['DELIVERY_UNKNOWN', 'List what is parked: it names position and destination.'],
  OB008: ['OPERATION_ARGUMENT', ''],
  OB009: ['TRANSACTION_ISOLATION', 'Call it by itself, or begin isolation level read committed.'],
  '55P03': [
    'OPERATION_BUSY',
    'Nothing was changed. Try again; if it stays so, look for an open transaction in pg_stat_activity.',
  ],
  '42501': ['OPERATION_FORBIDDEN', 'Nothing was changed. Connect as a user with the role outbox_operator.'],
};

/** The library's error for one that a function of `0006_operations.sql` raised; any other error as it is. */
export function operationErrorOf(cause: unknown): unknown {
  if (!(cause instanceof Error) || !('code' in cause) || typeof cause.code !== 'string') return cause;
  const known = BY_SQLSTATE[cause.code];
  if (known === undefined) return cause;
  const [code, next] = known;
  // The server's hint is nearer to the case than what holds for all of its kind.
  const hint = 'hint' in cause && typeof cause.hint === 'string' ? cause.hint : next;
  return new OperationError(code, `${cause.message} ${hint}`.trim(), { cause });
}
