import type { Queryable } from '../database/index.ts';

/** What one consumer holds. Seconds since the oldest is held; 0 where there is none. */
export interface HeldLag {
  readonly consumer: string;
  /** All that it holds, what waits behind another one included. */
  readonly held: number;
  /** Of those that wait for a person, or for a deployment, until the consumer has done what was decided. */
  readonly oldestForPersonSeconds: number;
  /** Of those that go by themselves: behind a gap, or tried again after a pause; without those behind one that waits for a person. */
  readonly oldestForTurnSeconds: number;
}

/**
 * The independent view of what is held, of every consumer that was ever started: works when they are dead, and as a role that sees nothing
 * else. By the database's clock. Role: `inbox_monitor`.
 */
export async function readHeldLag(db: Queryable): Promise<readonly HeldLag[]> {
  const { rows } = await db.query(
    `select consumer_name as consumer, held::float8 as held, for_person as "oldestForPersonSeconds", for_turn as "oldestForTurnSeconds"
       from inbox.held_lag() order by consumer_name`,
  );
  return rows as HeldLag[];
}
