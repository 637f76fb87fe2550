import { join } from 'node:path';
import { Logger } from '@aws-lambda-powertools/logger';
import { createPool, databaseConfig } from '../../shared/database/index.ts';
import { definition } from '../sample/catalogue/definition.ts';
import { install, type InstallReport } from './install.ts';
import { loginsFrom } from './logins.ts';

const log = new Logger();

/**
 * Brings the database to this version: migrations, login users, catalogue. The deployment runs it before the functions that
 * need it, and again at a roll-back, so everything in it may be repeated and meets newer schemas.
 */
export async function handler(): Promise<InstallReport> {
  const config = databaseConfig(process.env);
  const pool = createPool(config, {
    max: 1,
    applicationName: 'migrate',
    // Below the function's own ten minutes: a statement that is cancelled says so, a function that is killed does not.
    statementTimeoutMs: 540_000,
    log,
  });
  try {
    // One connection for all: the lock that keeps two migrators apart belongs to the session.
    const client = await pool.connect();
    try {
      return await install(client, {
        // The bundle has the SQL beside it.
        directory: join(process.env['LAMBDA_TASK_ROOT'] ?? join(import.meta.dirname, '../..'), 'migrations'),
        logins: loginsFrom(process.env['DATABASE_LOGINS']),
        loginAuth: config,
        catalogue: definition,
        cluster: process.env['OUTBOX_CLUSTER'],
        log,
      });
    } finally {
      client.release(true);
    }
  } finally {
    await pool.end();
  }
}
