import { Logger } from '@aws-lambda-powertools/logger';
import { createPool, databaseConfig, poolSize } from '../../../shared/database/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import { functionKeyring } from '../../keyring.ts';
import { ledger } from '../catalogue/consumers.ts';
import { catalogue } from '../catalogue/index.ts';
import { namingHandlers } from './handlers.ts';
import { functionMetrics } from '../../metrics.ts';

const log = new Logger();
const pool = createPool(databaseConfig(process.env), { max: poolSize(process.env), applicationName: ledger.name, log });

/** Consumes the queue `ledger.fifo`: a read model of invoices that follows their events strictly in order. */
export const handler = eventConsumer({
  ...ledger,
  catalogue,
  handlers: namingHandlers(functionKeyring(pool)),
  pool,
  log,
  metrics: functionMetrics(),
});
