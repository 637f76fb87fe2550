import { Logger } from '@aws-lambda-powertools/logger';
import { createPool, databaseConfig, poolSize } from '../../../shared/database/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import { analytics } from '../catalogue/consumers.ts';
import { catalogue } from '../catalogue/index.ts';
import { handlers } from './handlers.ts';
import { functionMetrics } from '../../metrics.ts';

const log = new Logger();

/** Consumes what EventBridge hands on to the queue of analytics: totals per day, in whatever order the events come. */
export const handler = eventConsumer({
  ...analytics,
  catalogue,
  handlers,
  pool: createPool(databaseConfig(process.env), { max: poolSize(process.env), applicationName: analytics.name, log }),
  log,
  metrics: functionMetrics(),
});
