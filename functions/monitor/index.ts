import { Logger } from '@aws-lambda-powertools/logger';
import { createPool, databaseConfig } from '../../shared/database/index.ts';
import { emfMetrics } from '../../shared/telemetry/index.ts';
import { probe } from './probe.ts';

const log = new Logger();
const metrics = emfMetrics({
  dimensions: { Installation: process.env['OUTBOX_INSTALLATION'] ?? 'unnamed' },
  write: (line) => process.stdout.write(`${line}\n`),
  now: Date.now,
});
const pool = createPool(databaseConfig(process.env), {
  max: 1,
  applicationName: 'monitor',
  // The next probe comes within a minute; a probe that waits longer than this has failed.
  statementTimeoutMs: 20_000,
  log,
});

/** Measures the outbox from the database's side. Fails when it cannot: a missing measurement raises the alarms. */
export async function handler(): Promise<void> {
  await probe(pool, { log, metrics });
}
