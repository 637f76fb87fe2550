import type { Queryable } from '../database/index.ts';
import { ConsumerChangedError } from './errors.ts';
import type { Mode, StartingPoint } from '../events/index.ts';

/** Who consumes, and how: what `inbox.consumer` stores. */
export interface ConsumerIdentity {
  readonly name: string;
  readonly mode: Mode;
  /** Without meaning for mode `any`, which has no positions. */
  readonly startingPoint: StartingPoint;
}

/**
 * Enters the consumer in `inbox.consumer`, or holds it against what is entered there. The consumer's role may insert but
 * not update: mode and starting point are fixed by the first deployment under a name.
 *
 * @throws ConsumerChangedError (`CONSUMER_CHANGED`)
 */
export async function registerConsumer(db: Queryable, consumer: ConsumerIdentity): Promise<void> {
  await db.query(
    `insert into inbox.consumer (name, mode, starting_point) values ($1, $2, $3)
     on conflict (name) do nothing`,
    [consumer.name, consumer.mode, consumer.startingPoint],
  );
  const { rows } = await db.query('select mode, starting_point from inbox.consumer where name = $1', [consumer.name]);
  const registered = rows[0] as { mode: string; starting_point: string };
  if (registered.mode !== consumer.mode) {
    throw new ConsumerChangedError(consumer.name, 'mode', registered.mode, consumer.mode);
  }
  if (consumer.mode !== 'any' && registered.starting_point !== consumer.startingPoint) {
    throw new ConsumerChangedError(consumer.name, 'starting point', registered.starting_point, consumer.startingPoint);
  }
}
