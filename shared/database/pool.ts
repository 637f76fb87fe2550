import pg from 'pg';
import type { Log } from '../telemetry/index.ts';
import { clientConfig, type DatabaseConfig } from './config.ts';

export interface PoolOptions {
  /** Most connections at once. A Lambda function that handles one request at a time needs one. */
  readonly max: number;
  /** Shown in `pg_stat_activity`. */
  readonly applicationName: string;
  /** A statement that runs longer is cancelled. Milliseconds. */
  readonly statementTimeoutMs?: number;
  /** A statement that is not even cancelled, because nobody answers any more, is given up, and its connection thrown away. Milliseconds; default: never. */
  readonly answerTimeoutMs?: number;
  readonly log: Log;
}

/** A pool whose idle connections may be cut at any time (thaw, fail-over) without ending the process. */
export function createPool(config: DatabaseConfig, options: PoolOptions): pg.Pool {
  const pool = new pg.Pool({
    ...clientConfig(config),
    max: options.max,
    application_name: options.applicationName,
    statement_timeout: options.statementTimeoutMs ?? 30_000,
    ...(options.answerTimeoutMs !== undefined && { query_timeout: options.answerTimeoutMs }),
    idle_in_transaction_session_timeout: 60_000,
  });
  // From its first moment on, also while it is handed out: a server that is shutting down may send its greeting and its last words in one
  // packet, before whoever asked for the connection can listen. What it was used for fails all the same.
  pool.on('connect', (client) => client.on('error', () => {}));
  pool.on('error', (error: Error & { code?: string }) => {
    options.log.warn('an idle database connection was lost; the next use opens another', { code: error.code });
  });
  return pool;
}
