import type pg from 'pg';

/** How long a probe of a connection may take. Milliseconds. */
const PROBE_MS = 1000;

/**
 * Makes sure that the pool's idle connection still answers, and throws it away where it does not; the next use then opens
 * another. A sandbox that was frozen for minutes holds a connection that the server, or a firewall between, may have
 * dropped without a word; the first statement on it would wait for ever.
 */
export async function revalidate(pool: pg.Pool): Promise<void> {
  if (pool.idleCount === 0) return;
  const client = await pool.connect();
  let dead: Error | undefined;
  const onError = (error: Error): void => {
    dead = error;
  };
  client.on('error', onError);
  try {
    await client.query({ text: 'select', query_timeout: PROBE_MS } as pg.QueryConfig);
  } catch (error) {
    dead = error as Error;
  } finally {
    client.off('error', onError);
    client.release(dead);
  }
}

/** SQLSTATEs after which the same request may pass a little later. */
const PASSING = /^(?:08...|53...|57P0[1-5]|57014|55P03|40001|40P01|25P03)$/;
/** What the operating system and the driver say when there is no database at the other end. */
const SOCKET = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);
const DRIVER =
  /^(?:Connection terminated|Client has encountered a connection error|Client was closed|Query read timeout|timeout exceeded when trying to connect|timeout expired)/i;

/** Whether an error says that the database is away, overloaded, or gave up waiting: nobody's mistake, and it passes. */
export function isDatabaseAway(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  // Node tries several addresses at once and reports all failures together.
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.every(isDatabaseAway);
  const { code } = error as { code?: unknown };
  if (typeof code === 'string' && (SOCKET.has(code) || PASSING.test(code))) return true;
  return DRIVER.test(error.message);
}
