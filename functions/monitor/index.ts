import { Logger } from '@aws-lambda-powertools/logger';
import pg from 'pg';
import { clientConfig, databaseConfig } from '../../shared/database/index.ts';
import { probe, probeDatabase, probeHeld } from './probe.ts';
import { functionMetrics } from '../metrics.ts';

const log = new Logger();
const database = databaseConfig(process.env);
/** False where consumers have a database of their own. */
const inbox = process.env['MONITOR_INBOX'] !== 'false';
const metrics = functionMetrics();

/** Below the function's time-out of 30 s, so that a probe that hangs ends with a log line. Milliseconds. */
const QUERY_MS = 15_000;

/** Measures outbox and inbox from the database's side. Fails when it cannot: a missing measurement raises the alarms. */
export async function handler(): Promise<void> {
  // A new connection each minute: one that was kept through a freeze may hang, and the probe must not depend on luck.
  const client = new pg.Client({
    ...clientConfig(database),
    application_name: 'monitor',
    statement_timeout: QUERY_MS,
    query_timeout: QUERY_MS,
  });
  // A connection that breaks while nothing is asked says so by an event, which would end the process.
  client.on('error', (error: Error & { code?: string }) => log.warn('the connection broke', { code: error.code }));
  try {
    await client.connect();
    await probe(client, { log, metrics });
    if (inbox) await probeHeld(client, { log, metrics });
    // Last: what waits is told first, whatever becomes of this.
    await probeDatabase(client, { log, metrics });
  } finally {
    await client.end();
  }
}
