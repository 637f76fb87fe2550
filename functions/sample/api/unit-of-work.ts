import type pg from 'pg';
import { transaction } from '../../../shared/database/index.ts';
import type { EventMetadata } from '../../../shared/events/index.ts';

/** One request's work in the database. */
export interface Unit {
  readonly tx: pg.PoolClient;
  /** Goes along with every event of the request. */
  readonly metadata: EventMetadata;
}

const TRIES = 3;
/** A deadlock, a conflict, a server that takes no writes any more. */
const AGAIN = new Set<unknown>(['40P01', '40001', '25006']);

/**
 * A transaction that is run again when PostgreSQL ended it to resolve a deadlock (40P01) or a conflict (40001), or refused to write (25006) because
 * the connection leads to the writer of before a fail-over: nothing of it happened then, and the next try has another connection.
 */
export async function unitOfWork<T>(
  pool: pg.Pool,
  metadata: EventMetadata,
  work: (unit: Unit) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await transaction(pool, (tx) => work({ tx, metadata }));
    } catch (error) {
      if (attempt === TRIES || !AGAIN.has((error as { code?: unknown }).code)) throw error;
    }
  }
}
