export { clientConfig, type DatabaseConfig, databaseConfig, DatabaseConfigError } from './config.ts';
export { ensureLogins, type Login, type LoginAuth } from './logins.ts';
export { migrate, type Migration, MigrationError, type MigrationReport, readMigrations } from './migrate.ts';
export { createPool, type PoolOptions } from './pool.ts';
export type { Queryable, Result, Row } from './queryable.ts';
export { type Connections, transaction, TransactionAbortedError } from './transaction.ts';
