import type { Queryable } from '../../database/index.ts';
import { advanceCursor, type Cursor, type Scan } from './cursor.ts';
import type { InstalledDestination } from './delivery.ts';
import { find, type FindRequest, type FindResult } from './find.ts';

/** Which deliveries a lane works on, and how it finds them: the live ones, or those of one replay. */
export interface Work {
  find(db: Queryable, request: FindRequest): Promise<FindResult>;
  /** From where the next scan walks on. */
  advance(cursor: Cursor, scan: Scan, page: number): Cursor;
  /**
   * Does what the policy says of parked heads, `PARKING_ROWS` rows at most. Keys of which nothing is left to do are not in the answer.
   *
   * @param keys each with the sequence up to which all is blocked behind its head, as the call before answered; null where there was none
   */
  applyParking(
    db: Queryable,
    destination: InstalledDestination,
    keys: ReadonlyMap<string, string | null>,
  ): Promise<readonly Parking[]>;
}

/** `more`: this has more to do of the key. Else the key has to be looked up again. */
export interface Parking {
  readonly key: string;
  readonly more: boolean;
  readonly reached: string | null;
}

/** Rows that one statement blocks. It takes about 0.2 s, in which the other destinations wait for the connection; of 2,000 they wait less, and all of it takes longer. */
export const PARKING_ROWS = 5_000;

export const LIVE: Work = {
  find,
  advance: advanceCursor,
  async applyParking(db, destination, keys) {
    const { rows } = await db.query(
      'select key, more, reached_now as reached from outbox.apply_parking($1, $2, $3, $4)',
      [destination.number, [...keys.keys()], [...keys.values()], PARKING_ROWS],
    );
    return rows as Parking[];
  },
};
