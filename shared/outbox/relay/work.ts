import type { Queryable } from '../../database/index.ts';
import { advanceCursor, type Cursor, type Scan } from './cursor.ts';
import type { InstalledDestination } from './delivery.ts';
import { find, type FindRequest, type FindResult } from './find.ts';

/** Which deliveries a lane works on, and how it finds them: the live ones, or those of one replay. */
export interface Work {
  find(db: Queryable, request: FindRequest): Promise<FindResult>;
  /** From where the next scan walks on. */
  advance(cursor: Cursor, scan: Scan, page: number): Cursor;
  /** Does what the policy says of parked heads; answers with the keys that have to be looked up again. */
  applyParking(db: Queryable, destination: InstalledDestination, keys: readonly string[]): Promise<readonly string[]>;
}

export const LIVE: Work = {
  find,
  advance: advanceCursor,
  async applyParking(db, destination, keys) {
    const { rows } = await db.query('select key from outbox.apply_parking($1, $2) as a (key)', [
      destination.number,
      keys,
    ]);
    return rows.map(({ key }) => key);
  },
};
