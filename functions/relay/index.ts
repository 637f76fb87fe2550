import { Logger } from '@aws-lambda-powertools/logger';
import type { Context } from 'aws-lambda';
import pg from 'pg';
import { clientConfig, databaseConfig } from '../../shared/database/index.ts';
import { type RelayReport, runRelay } from '../../shared/outbox/index.ts';
import { publishers, relayConfig } from './config.ts';

const log = new Logger({ serviceName: 'relay' });
const config = relayConfig(process.env);
const database = databaseConfig(process.env);

/** Left over when the run ends: time to settle what is in flight and to give the partitions back. Milliseconds. */
const RESERVE_MS = 20_000;

/** A scheduled run. Ends when the next one has taken over, when its time is over, or (mode `drain`) when nothing is due. */
export async function handler(_event: unknown, context: Context): Promise<RelayReport> {
  log.addContext(context);
  const byDestination = publishers(config);
  const left = (context.getRemainingTimeInMillis() - RESERVE_MS) / 1000;
  const report = await runRelay({
    connect: async () => {
      const client = new pg.Client({
        ...clientConfig(database),
        application_name: 'sealed-outbox-relay',
        statement_timeout: 20_000,
        query_timeout: 25_000,
      });
      // The relay listens as soon as it has the connection; what comes in the same packet as the greeting would end the process.
      client.on('error', () => {});
      await client.connect();
      return client;
    },
    publishers: byDestination,
    log,
    slot: config.slot,
    mode: config.mode,
    ...(config.cluster !== undefined && { cluster: config.cluster }),
    maxSeconds: Math.max(1, Math.min(config.maxSeconds, left)),
  }).finally(() => {
    for (const publisher of Object.values(byDestination)) publisher.close();
  });
  log.info('the run is over', { ...report });
  return report;
}
