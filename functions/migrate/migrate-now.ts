import { join } from 'node:path';
import { Logger } from '@aws-lambda-powertools/logger';
import { createPool, databaseConfig } from '../../shared/database/index.ts';
import type { Catalogue, CatalogueRows } from '../../shared/events/index.ts';
import { install, type InstallReport } from './install.ts';
import { loginsFrom } from './logins.ts';

const log = new Logger();

/** What a migrate function brings along. */
interface Installed {
  /** Holds `migrations/`. */
  readonly directory: string;
  /** Default: all. */
  readonly areas?: readonly string[];
  readonly catalogue: Catalogue | CatalogueRows;
}

/**
 * Brings the database to this version: migrations, login users, catalogue. The deployment runs it before the functions that
 * need it, and again at a roll-back, so everything in it may be repeated and meets newer schemas.
 */
export async function migrateNow({ directory, areas, catalogue }: Installed): Promise<InstallReport> {
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
        directory: join(directory, 'migrations'),
        areas,
        logins: loginsFrom(process.env['DATABASE_LOGINS']),
        loginAuth: config,
        catalogue,
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
