import type { Queryable } from '../database/index.ts';

/** What stands in the way of cleaning up, and how near the server is to its limits. */
export interface DatabaseAge {
  /** Seconds since the oldest open transaction began; 0: none is open; null: the database does not let us see. */
  readonly oldestTransactionSeconds: number | null;
  /** Transactions since the oldest row version was deleted that something keeps from being cleaned up; null: the database does not let us see. */
  readonly snapshotAge: number | null;
  /** Transactions since the oldest database of the server was frozen. PostgreSQL stops writing before 2 billion. */
  readonly transactionIdAge: number;
  /** Percent of `max_connections`. */
  readonly connectionsUsed: number;
}

/** The monitor's view of the database itself. By the database's clock. Role: `outbox_monitor`. */
export async function readDatabaseAge(db: Queryable): Promise<DatabaseAge> {
  const { rows } = await db.query(
    `select oldest_transaction as "oldestTransactionSeconds", snapshot_age as "snapshotAge",
            transaction_id_age as "transactionIdAge", connections_used as "connectionsUsed"
       from outbox.database_age()`,
  );
  return rows[0];
}
