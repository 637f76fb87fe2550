import pg from 'pg';
import { onTestFinished } from 'vitest';
import { createDatabase, type LocalPostgresOptions, MIGRATOR, startPostgres } from '../../local/postgres.ts';
import { ensureLogins, migrate, readMigrations } from '../../shared/database/index.ts';
import { LOGINS, type TestUser } from './logins.ts';

export interface SecondCluster {
  pool(user: TestUser): pg.Pool;
  /** A new connection, for whoever ends it. */
  connect(user: TestUser): Promise<pg.Client>;
}

/** A PostgreSQL of its own with a freshly migrated database: its transaction ids start over. Called in a test, and stopped after it. */
export async function secondCluster(options: LocalPostgresOptions = {}): Promise<SecondCluster> {
  const server = await startPostgres(options);
  const open: pg.Pool[] = [];
  onTestFinished(async () => {
    await Promise.allSettled(open.map((pool) => pool.end()));
    await server.stop();
  });
  const database = 'restored';
  await createDatabase(server, database);
  const settings = (user: string) => ({
    host: '127.0.0.1',
    port: server.port,
    database,
    user,
    password: server.password,
  });
  const connect = async (user: string): Promise<pg.Client> => {
    const client = new pg.Client(settings(user));
    client.on('error', () => {});
    await client.connect();
    return client;
  };
  const client = await connect(MIGRATOR);
  await migrate(client, await readMigrations('migrations', ['outbox', 'inbox', 'vault', 'sample']));
  await ensureLogins(client, LOGINS, { auth: 'password', password: server.password });
  await client.end();
  return {
    connect,
    pool(user) {
      const pool = new pg.Pool({ ...settings(user), max: 3 });
      pool.on('error', () => {});
      open.push(pool);
      return pool;
    },
  };
}
