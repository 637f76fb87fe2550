import { Logger } from '@aws-lambda-powertools/logger';
import { createPool, databaseConfig } from '../../../shared/database/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import { emfMetrics } from '../../../shared/telemetry/index.ts';
import { catalogue } from '../catalogue/index.ts';
import { handlers } from './handlers.ts';

const log = new Logger();

/** Messages of one batch (at most ten) that are worked on at once, each on a connection of its own. */
const CONNECTIONS = 4;

/** Consumes what EventBridge hands on to the queue of analytics: totals per day, in whatever order the events come. */
export const handler = eventConsumer({
  name: 'analytics',
  mode: 'any',
  catalogue,
  handlers,
  pool: createPool(databaseConfig(process.env), { max: CONNECTIONS, applicationName: 'analytics', log }),
  log,
  metrics: emfMetrics({
    dimensions: { Installation: process.env['OUTBOX_INSTALLATION'] ?? 'local' },
    write: (line) => process.stdout.write(`${line}\n`),
    now: Date.now,
  }),
});
