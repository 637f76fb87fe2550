import type { Queryable } from '../../database/index.ts';
import { call } from './call.ts';

export interface Restored {
  /** The high bits of every new sequence: `sequence >> 40`. */
  readonly epoch: number;
  /** Unfinished deliveries that a relay of this cluster will find again. */
  readonly restamped: number;
}

/**
 * Makes a database that was restored from a backup or a copy, or failed over with loss, fit to go on: new events get sequences above any that a
 * consumer may have seen, unfinished deliveries are found again, leases of the past are gone. Call it once, before relays start; they refuse
 * to run until the identity that they are configured with is the one given here.
 *
 * One transaction: it happens as a whole or not at all. About 5 seconds for 200,000 unfinished deliveries, during which appends wait. Between two
 * restores of the same backup must lie five minutes, or they get the same epoch. Role: `outbox_operator`; written to the audit.
 *
 * @param cluster identity of the database cluster, 1 to 200 characters without space: the relay's `cluster`
 * @throws OperationError: `OPERATION_BUSY` while a transaction that has appended stays open, and those that every act may throw
 */
export async function restore(db: Queryable, cluster: string, reason: string): Promise<Restored> {
  const [row] = await call(db, 'select epoch, restamped::float8 as restamped from outbox.restore($1, $2)', [
    cluster,
    reason,
  ]);
  return row;
}
