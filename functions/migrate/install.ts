import {
  alone,
  ensureLogins,
  type LoginAuth,
  migrate,
  type MigrationReport,
  type Queryable,
  readMigrations,
  recordCluster,
} from '../../shared/database/index.ts';
import { type Catalogue, catalogueRows, type CatalogueRows } from '../../shared/events/index.ts';
import { giveVault } from '../../shared/sealing/index.ts';
import type { Log } from '../../shared/telemetry/index.ts';
import type { FunctionLogin } from './logins.ts';

export interface InstallOptions {
  /** Holds a folder for each area, with its numbered SQL. */
  readonly directory: string;
  /** In the order in which they are applied. Default: `outbox`, `inbox`, `vault`, `sample`. */
  readonly areas?: readonly string[] | undefined;
  readonly logins: readonly FunctionLogin[];
  readonly loginAuth: LoginAuth;
  readonly catalogue: Catalogue | CatalogueRows;
  /** Identity of the database cluster, by which relays know a copy. Default: none, and relays work on any. */
  readonly cluster?: string | undefined;
  readonly log: Log;
}

export interface InstallReport extends MigrationReport {
  /** Users that exist now, with exactly their roles and their classes in the vault. */
  readonly logins: readonly string[];
  /** Event types of the catalogue, each version counted. */
  readonly eventTypes: number;
  readonly destinations: readonly string[];
}

const AREAS = ['outbox', 'inbox', 'vault', 'sample'];

/**
 * Migrations first, because they create the roles that logins are given and the tables that the catalogue goes into.
 * Each step is complete in itself: after a failure in a later one, running it all again is the remedy. Of several at once, one works and the
 * others wait for it.
 */
export async function install(client: Queryable, options: InstallOptions): Promise<InstallReport> {
  return alone(client, () => installAll(client, options));
}

async function installAll(client: Queryable, options: InstallOptions): Promise<InstallReport> {
  const { log, areas = AREAS } = options;
  const migrations = await readMigrations(options.directory, areas);
  const report = await migrate(client, migrations, (migration) => log.info('applying', { migration }));
  if (report.newer.length > 0) log.warn('the database is newer than this version', { newer: report.newer });
  await ensureLogins(client, options.logins, options.loginAuth);
  if (areas.includes('vault')) await giveVault(client, options.logins);
  const { catalogue } = options;
  const rows = 'event_types' in catalogue ? catalogue : catalogueRows(catalogue);
  await client.query('select outbox.install_catalogue($1)', [JSON.stringify(rows)]);
  if (options.cluster !== undefined) await recordCluster(client, options.cluster);
  const done: InstallReport = {
    ...report,
    logins: options.logins.map(({ user }) => user),
    eventTypes: rows.event_types.length,
    destinations: rows.destinations.map(({ name }) => name),
  };
  log.info('the database is up to date', { ...done });
  return done;
}
