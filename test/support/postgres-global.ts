import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { createDatabase, MIGRATOR, startPostgres } from '../../local/postgres.ts';
import { ensureLogins, migrate, readMigrations } from '../../shared/database/index.ts';
import { LOGINS, TEMPLATE } from './logins.ts';

declare module 'vitest' {
  interface ProvidedContext {
    postgres: { port: number; password: string };
  }
}

/** One PostgreSQL a run, one template database, migrated once; each test file clones it (`testDatabase`). */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const server = await startPostgres();
  try {
    await createDatabase(server, TEMPLATE);
    const client = new pg.Client({
      host: '127.0.0.1',
      port: server.port,
      user: MIGRATOR,
      password: server.password,
      database: TEMPLATE,
    });
    // Stopping the server after a failure cuts it; what failed is thrown below.
    client.on('error', () => {});
    await client.connect();
    try {
      await migrate(client, await readMigrations('migrations', ['outbox', 'inbox', 'vault', 'sample']));
      await ensureLogins(client, LOGINS, { auth: 'password', password: server.password });
    } finally {
      await client.end();
    }
  } catch (error) {
    await server.stop();
    throw error;
  }
  project.provide('postgres', { port: server.port, password: server.password });
  return () => server.stop();
}
