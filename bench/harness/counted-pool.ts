import pg from 'pg';

/** What went over the connections of a pool since the last reset. */
export interface Counts {
  statements: number;
  transactions: number;
}

/** A pool that counts, and knows the server processes behind its connections. */
export interface CountedPool {
  readonly pool: pg.Pool;
  readonly counts: Counts;
  readonly serverProcesses: ReadonlySet<number>;
  /** Another pool that is counted with it. */
  sharing(max: number): pg.Pool;
}

export function countedPool(config: pg.PoolConfig): CountedPool {
  const counts: Counts = { statements: 0, transactions: 0 };
  const serverProcesses = new Set<number>();

  class CountingClient extends pg.Client {
    // oxlint-disable-next-line typescript/no-explicit-any -- pg's own signature has a dozen overloads, and the pool calls it with a callback
    override query(...given: [any, any?, any?]): any {
      counts.statements += 1;
      if (typeof given[0] === 'string' && given[0].endsWith('commit')) counts.transactions += 1;
      return super.query(...given);
    }
  }

  const sharing = (max: number | undefined): pg.Pool => {
    const pool = new pg.Pool({ ...config, max, Client: CountingClient });
    // An idle connection that the server ends is no failure: the next query opens another.
    pool.on('error', () => {});
    pool.on('connect', (client) => {
      const { processID } = client as unknown as { processID: number };
      serverProcesses.add(processID);
      client.on('end', () => serverProcesses.delete(processID));
    });
    return pool;
  };
  return { pool: sharing(config.max), counts, serverProcesses, sharing };
}
