import { Logger } from '@aws-lambda-powertools/logger';
import { createPool, databaseConfig, poolSize } from '../../../shared/database/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import { emfMetrics } from '../../../shared/telemetry/index.ts';
import { analytics } from '../catalogue/consumers.ts';
import { catalogue } from '../catalogue/index.ts';
import { handlers } from './handlers.ts';

const log = new Logger();

/** Consumes what EventBridge hands on to the queue of analytics: totals per day, in whatever order the events come. */
export const handler = eventConsumer({
  ...analytics,
  catalogue,
  handlers,
  pool: createPool(databaseConfig(process.env), { max: poolSize(process.env), applicationName: analytics.name, log }),
  log,
  metrics: emfMetrics({
    dimensions: { Installation: process.env['OUTBOX_INSTALLATION'] ?? 'local' },
    write: (line) => process.stdout.write(`${line}\n`),
    now: Date.now,
  }),
});
