import { Logger } from '@aws-lambda-powertools/logger';
import { createPool, databaseConfig, poolSize } from '../../../shared/database/index.ts';
import { eventConsumer } from '../../../shared/inbox/index.ts';
import { functionKeyring } from '../../keyring.ts';
import { notifications } from '../catalogue/consumers.ts';
import { catalogue } from '../catalogue/index.ts';
import { notificationHandlers } from './handlers.ts';
import { mailClient } from './mail-client.ts';
import { functionMetrics } from '../../metrics.ts';

const log = new Logger();
const pool = createPool(databaseConfig(process.env), {
  max: poolSize(process.env),
  applicationName: notifications.name,
  log,
});
const keyring = functionKeyring(pool);

/** Consumes the queue `notifications`: one mail for each invoice that was issued, however often the message comes. No connection is held meanwhile. */
export const handler = eventConsumer({
  ...notifications,
  catalogue,
  handlers: notificationHandlers(mailClient(process.env['MAIL_PROVIDER_URL'] ?? ''), keyring),
  keyring,
  // A mail needs name and address; tax ids and accounts stay closed.
  opens: ['contact'],
  pool,
  log,
  metrics: functionMetrics(),
});
