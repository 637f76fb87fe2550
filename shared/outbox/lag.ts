import type { Queryable } from '../database/index.ts';

/** What waits at one destination. Parked and blocked deliveries wait for a person, so they count apart. */
export interface DestinationLag {
  readonly destination: string;
  /** Whether the catalogue has it no more: what waits there has no way out. */
  readonly retired: boolean;
  readonly pending: number;
  /** Seconds since the oldest pending delivery was written; 0 when nothing is pending. */
  readonly oldestPendingAgeSeconds: number;
  readonly parked: number;
  readonly blocked: number;
  /** Blocked ones with nothing parked below them. There should be none: nobody would ever let them go. `unblock` does. */
  readonly orphaned: number;
}

export interface Lag {
  readonly destinations: readonly DestinationLag[];
  /** Seconds since any relay was last seen; null where none ever was. */
  readonly relaySilenceSeconds: number | null;
}

/**
 * The independent view of the outbox: works when the relay is dead, and as a role that may not read data.
 * One statement, so one snapshot; by the database's clock. Role: `outbox_monitor` or `outbox_operator`.
 */
export async function readLag(db: Queryable): Promise<Lag> {
  const { rows } = await db.query(
    `select destination_name as destination, retired, pending::float8 as pending, oldest_pending_age as "oldestPendingAgeSeconds",
            parked::float8 as parked, blocked::float8 as blocked, orphaned::float8 as orphaned, relay_silence as silence
       from outbox.lag()`,
  );
  return {
    destinations: rows.map((row) => ({
      destination: row.destination,
      retired: row.retired,
      pending: row.pending,
      oldestPendingAgeSeconds: row.oldestPendingAgeSeconds,
      parked: row.parked,
      blocked: row.blocked,
      orphaned: row.orphaned,
    })),
    relaySilenceSeconds: rows[0]?.silence ?? null,
  };
}
