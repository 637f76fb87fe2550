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

/**
 * A transaction that is run again when PostgreSQL ended it to resolve a deadlock (40P01) or a conflict (40001): nothing of it
 * happened then.
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
      const code = (error as { code?: unknown }).code;
      if (attempt === TRIES || (code !== '40P01' && code !== '40001')) throw error;
    }
  }
}
