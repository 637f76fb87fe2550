import { createHash } from 'node:crypto';
import pg from 'pg';

const names = new Map<string, string>();

/** Statements with values are prepared once a connection, so that the server's time goes into the run and not into planning. */
class PreparingClient extends pg.Client {
  // oxlint-disable-next-line typescript/no-explicit-any -- pg's own signature has a dozen overloads
  override query(text: any, values?: any, callback?: any): any {
    if (typeof text !== 'string' || !Array.isArray(values)) return super.query(text, values, callback);
    let name = names.get(text);
    if (name === undefined) names.set(text, (name = createHash('sha256').update(text).digest('hex').slice(0, 32)));
    return super.query({ name, text, values }, callback);
  }
}

/** A pool that survives whatever happens to its connections. */
export function sturdyPool(config: pg.PoolConfig): pg.Pool {
  const pool = new pg.Pool({ ...config, connectionTimeoutMillis: 5_000, Client: PreparingClient });
  // Also while it is handed out: the server's last words may come in one packet with its first.
  pool.on('connect', (client) => client.on('error', () => {}));
  pool.on('error', () => {});
  return pool;
}
