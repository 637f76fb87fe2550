import { Logger, parseCronItems, run, runMigrations } from 'graphile-worker';
import pg from 'pg';
import type { Connection } from '../harness/server.ts';
import { AT_ONCE, CONNECTIONS, messages, type Peer, type PeerMessage } from './peer.ts';

/** It warns of a pool without these listeners. */
function poolOf(connection: Connection, max: number): pg.Pool {
  const pool = new pg.Pool({ ...connection, max });
  for (const event of ['error', 'connect'] as const) pool.on(event, () => {});
  return pool;
}

/** A named queue runs one job at a time, in order. */
export const graphileWorker: Peer = {
  async prepare(start, admin) {
    const pool = poolOf(start.connection, 1);
    await runMigrations({ pgPool: pool });
    await pool.end();
    await admin.query(
      `select graphile_worker.add_job('send', m.payload::json, queue_name := m.key,
               run_at := now() - interval '1 hour' + m.n * interval '1 microsecond') from (${messages(start)}) m`,
    );
  },

  async start({ connection }, send) {
    const pgPool = poolOf(connection, CONNECTIONS);
    await run({
      pgPool,
      concurrency: AT_ONCE,
      pollInterval: 100,
      noHandleSignals: true,
      parsedCronItems: parseCronItems([]),
      // A line per job would cost it more than the job.
      logger: new Logger(() => () => {}),
      // Both as its page on performance has them: jobs are fetched and completed in batches.
      preset: { worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 } },
      taskList: { send: (payload) => send(payload as PeerMessage) },
    });
  },
};
