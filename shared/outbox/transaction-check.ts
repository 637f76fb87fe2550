import type { Queryable } from '../database/index.ts';
import { NotATransactionError } from './errors.ts';

/**
 * A connection inside a transaction: a `pg` client after `begin`, or an adapter of one line for another driver.
 * A pool is none, because each of its queries may run on another connection and commits at once; these properties of
 * `pg.Pool` make passing it a compile error.
 */
export interface Transaction extends Queryable {
  readonly totalCount?: never;
  readonly idleCount?: never;
  readonly waitingCount?: never;
}

/**
 * Refuses what is surely no open transaction, for callers without types. An adapter that hides its connection passes:
 * nothing here can see through it.
 *
 * @throws NotATransactionError (`NOT_A_TRANSACTION`)
 */
export function checkTransaction(tx: unknown): void {
  if (typeof tx !== 'object' || tx === null || typeof (tx as Partial<Queryable>).query !== 'function') {
    throw new NotATransactionError('append needs a transaction with query(text, values) first. Nothing was appended.');
  }
  if ('totalCount' in tx && 'connect' in tx) {
    throw new NotATransactionError(
      'append was given a pool: the event would commit alone, whatever becomes of the business row. ' +
        'Pass the client on which you ran begin. Nothing was appended.',
    );
  }
  switch (transactionStatus(tx)) {
    case 'I':
      throw new NotATransactionError(
        'append was given a connection outside a transaction. Await begin on it first. Nothing was appended.',
      );
    case 'E':
      throw new NotATransactionError(
        'append was given a transaction in which a statement has failed: it can only be rolled back. Nothing was appended.',
      );
    default:
  }
}

/** What the server said last: I idle, T in a transaction, E in a failed one; undefined where the driver does not say. */
function transactionStatus(tx: object): unknown {
  const { getTransactionStatus } = tx as { getTransactionStatus?: unknown };
  return typeof getTransactionStatus === 'function' ? getTransactionStatus.call(tx) : undefined;
}
