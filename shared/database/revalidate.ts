import type pg from 'pg';

/** How long a probe of a connection may take. Milliseconds. */
const PROBE_MS = 1000;

/**
 * Makes sure that the pool's idle connections still answer, all at once, and throws away those that do not; the next use then opens
 * others. A sandbox that was frozen for minutes holds connections that the server, or a firewall between, may have dropped without a word;
 * the first statement on one would wait for ever. Takes a round trip, or a second where one is dead; never rejects.
 */
export async function revalidate(pool: pg.Pool): Promise<void> {
  await Promise.all(Array.from({ length: pool.idleCount }, () => probe(pool).catch(() => {})));
}

async function probe(pool: pg.Pool): Promise<void> {
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
