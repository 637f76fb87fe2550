import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, inject } from 'vitest';
import type { DatabaseConfig } from '../../shared/database/index.ts';
import { TEMPLATE, type TestUser } from './logins.ts';

export interface TestDatabase {
  readonly name: string;
  /** The settings with which a function would connect as `user`. */
  config(user: TestUser): DatabaseConfig;
  /** A pool as `user`; ended after the file's tests. */
  pool(user: TestUser, max?: number, more?: Pick<pg.PoolConfig, 'stream'>): pg.Pool;
  /** A connection as `user`; ended after the file's tests. */
  client(user: TestUser): Promise<pg.Client>;
  /** A connection as the server's superuser, for faults only: nothing of the product runs as it. */
  superuser(): Promise<pg.Client>;
}

/**
 * A database of this test file's own: a clone of the migrated template, gone when the file is done. Call it at the file's top level
 * or in a `describe`.
 */
export function testDatabase(): Promise<TestDatabase> {
  return databaseFrom(TEMPLATE);
}

/** A database with nothing in it, as a deployment finds it: it belongs to the migrating user. Gone when the file is done. */
export function emptyDatabase(): Promise<TestDatabase> {
  return databaseFrom('template0');
}

async function databaseFrom(template: string): Promise<TestDatabase> {
  const { port, password } = inject('postgres');
  const name = `test_${randomBytes(6).toString('hex')}`;
  const open: { end(): Promise<void> }[] = [];
  const admin = async (sql: string): Promise<void> => {
    const client = new pg.Client({ host: '127.0.0.1', port, user: 'postgres', password, database: 'postgres' });
    await client.connect();
    try {
      await client.query(sql);
    } finally {
      await client.end();
    }
  };
  await admin(`create database ${name} template ${template} owner sealed_migrator`);
  afterAll(async () => {
    await Promise.allSettled(open.map((it) => it.end()));
    await admin(`drop database ${name} with (force)`);
  });
  const connect = async (user: string): Promise<pg.Client> => {
    const client = new pg.Client({ host: '127.0.0.1', port, database: name, user, password });
    client.on('error', () => {});
    await client.connect();
    open.push(client);
    return client;
  };
  const config = (user: TestUser): DatabaseConfig => ({
    host: '127.0.0.1',
    port,
    database: name,
    user,
    auth: 'password',
    password,
  });
  return {
    name,
    config,
    pool(user, max = 5, more = {}) {
      const pool = new pg.Pool({ host: '127.0.0.1', port, database: name, user, password, max, ...more });
      // Tests cut connections on purpose; the pool's idle ones then say so.
      pool.on('error', () => {});
      open.push(pool);
      return pool;
    },
    client: connect,
    superuser: () => connect('postgres'),
  };
}
