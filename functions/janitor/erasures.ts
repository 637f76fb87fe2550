import { createPool, type DatabaseConfig } from '../../shared/database/index.ts';
import type { Walk } from '../../shared/retention/index.ts';
import { type ErasureLog, erasureWalk, folderErasureLog, s3ErasureLog } from '../../shared/sealing/index.ts';
import type { Log, Metrics } from '../../shared/telemetry/index.ts';
import { announceErased } from '../erasure.ts';
import { s3Calls } from '../s3.ts';
import type { ErasureConfig } from './config.ts';

const STATEMENT_MS = 20_000;

type Environment = Readonly<Record<string, string | undefined>>;

/** The walk through what is left of erasures, their log, and what ends its connections. */
export function openErasures(
  { log: address, erasable }: ErasureConfig,
  {
    database,
    log,
    metrics,
    env,
  }: { readonly database: DatabaseConfig; readonly log: Log; readonly metrics: Metrics; readonly env: Environment },
): { readonly walk: Walk; readonly log: ErasureLog; close(): Promise<void> } {
  const pool = createPool(database, {
    max: 1,
    applicationName: 'janitor',
    statementTimeoutMs: STATEMENT_MS,
    // As the run's own connection: what hangs ends with a log line, and the other walks go on.
    answerTimeoutMs: STATEMENT_MS + 5_000,
    log,
  });
  const client = s3Calls(10_000, env);
  const erasureLog =
    address.kind === 's3' ? s3ErasureLog({ client, bucket: address.bucket }) : folderErasureLog(address.path);
  return {
    log: erasureLog,
    walk: erasureWalk({ pool, log: erasureLog, erasable, announce: announceErased, metrics }),
    async close() {
      client.destroy();
      await pool.end();
    },
  };
}
