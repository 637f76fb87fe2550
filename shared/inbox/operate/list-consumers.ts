import type { Queryable } from '../../database/index.ts';
import type { Mode, StartingPoint } from '../../events/index.ts';
import { call } from './operation-error.ts';

export interface RegisteredConsumer {
  readonly consumer: string;
  readonly mode: Mode;
  readonly startingPoint: StartingPoint;
  /** Raised by each reset. */
  readonly generation: number;
  /** Number of the replay that it applies; 0: none. */
  readonly replayAccepted: number;
}

/** Every consumer that was ever started. Role: `inbox_operator`. */
export async function listConsumers(db: Queryable): Promise<RegisteredConsumer[]> {
  const rows = await call(
    db,
    `select consumer_name as consumer, mode, starting_point as "startingPoint", generation, replay_accepted as "replayAccepted"
       from inbox.list_consumers()`,
    [],
  );
  return rows as RegisteredConsumer[];
}
