import { Logger } from '@aws-lambda-powertools/logger';
import { v7 } from 'uuid';
import { createPool, databaseConfig } from '../../../shared/database/index.ts';
import { createOutbox } from '../../../shared/outbox/index.ts';
import { functionErasure } from '../../erasure.ts';
import { functionKeys } from '../../keyring.ts';
import { classes } from '../catalogue/classes.ts';
import { erasable } from '../catalogue/erasable.ts';
import { catalogue } from '../catalogue/index.ts';
import { callerRules } from './caller.ts';
import { createHandler } from './handler.ts';

const log = new Logger();
// One request at a time in a sandbox: one connection.
const pool = createPool(databaseConfig(process.env), {
  max: 1,
  applicationName: 'sample-api',
  // Shorter than the 30 seconds after which API Gateway gives up on the function.
  statementTimeoutMs: 10_000,
  log,
});
const keys = functionKeys(pool);
const { keyring, indexKeys } = keys;

export const handler = createHandler({
  pool,
  outbox: createOutbox({ catalogue, keyring }),
  keyring,
  indexKeys,
  erasure: functionErasure(pool, keys, { classes, erasable }),
  callers: callerRules(process.env),
  log,
  newId: () => v7(),
  lambdaTrace: () => process.env['_X_AMZN_TRACE_ID'],
});
