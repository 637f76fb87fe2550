import type { Queryable } from '../database/index.ts';
import { ConsumerChangedError } from './errors.ts';
import type { Mode, StartingPoint } from '../events/index.ts';

/** Who consumes, and how: what `inbox.consumer` stores. */
export interface ConsumerIdentity {
  readonly name: string;
  readonly mode: Mode;
  /** Without meaning for mode `any`, which has no positions. */
  readonly startingPoint: StartingPoint;
  /** Events older than this are held. The janitor keeps dedupe rows for so long. */
  readonly windowDays: number;
}

/**
 * Enters the consumer in `inbox.consumer`, or holds it against what is entered there. The consumer's role may update nothing but the
 * window: mode and starting point are fixed by the first deployment under a name. The window is that of whoever started last.
 *
 * @throws ConsumerChangedError (`CONSUMER_CHANGED`)
 */
export async function registerConsumer(db: Queryable, consumer: ConsumerIdentity): Promise<void> {
  await db.query(
    `insert into inbox.consumer (name, mode, starting_point, window_days) values ($1, $2, $3, $4)
     on conflict (name) do nothing`,
    [consumer.name, consumer.mode, consumer.startingPoint, consumer.windowDays],
  );
  const { rows } = await db.query('select mode, starting_point, window_days from inbox.consumer where name = $1', [
    consumer.name,
  ]);
  const registered = rows[0] as { mode: string; starting_point: string; window_days: number };
  if (registered.mode !== consumer.mode) {
    throw new ConsumerChangedError(consumer.name, 'mode', registered.mode, consumer.mode);
  }
  if (consumer.mode !== 'any' && registered.starting_point !== consumer.startingPoint) {
    throw new ConsumerChangedError(consumer.name, 'starting point', registered.starting_point, consumer.startingPoint);
  }
  // Waits for a page of dedupe rows that is being pruned by the window of before.
  if (registered.window_days !== consumer.windowDays) {
    await db.query('update inbox.consumer set window_days = $2 where name = $1', [consumer.name, consumer.windowDays]);
  }
}
