export { clientConfig, type DatabaseConfig, databaseConfig, DatabaseConfigError } from './config.ts';
export { createPool, type PoolOptions } from './pool.ts';
export type { Queryable, Result, Row } from './queryable.ts';
export { transaction } from './transaction.ts';
