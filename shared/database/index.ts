export { clientConfig, type DatabaseConfig, databaseConfig, DatabaseConfigError, poolSize } from './config.ts';
export { ensureLogins, type Login, type LoginAuth } from './logins.ts';
export { alone, migrate, type MigrationReport, migrationScript, pendingMigrations } from './migrate.ts';
export { type Migration, MigrationError, readMigrations } from './migration-files.ts';
export { createPool, type PoolOptions } from './pool.ts';
export { revalidate } from './revalidate.ts';
export type { Queryable, Result, Row } from './queryable.ts';
export { type Connections, transaction, TransactionAbortedError } from './transaction.ts';
