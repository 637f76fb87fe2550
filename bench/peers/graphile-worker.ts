import { Logger, parseCronItems, run, runMigrations } from 'graphile-worker';
import pg from 'pg';
import type { Connection } from '../harness/server.ts';
import { AT_ONCE, CONNECTIONS, messages, type Peer, type PeerMessage } from './peer.ts';

/** One transaction with all of them would take it minutes. */
const BATCH = 1_000;

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
    await admin.query(`create temp table message as ${messages(start)}; create unique index on message (n)`);
    for (let low = 0; low < start.events; low += BATCH) {
      await admin.query(
        `select from graphile_worker.add_jobs(array(
           select ('send', payload::json, key, now() - interval '1 hour' + n * interval '1 microsecond',
                   null, null, null, null)::graphile_worker.job_spec
             from message where n >= $1::integer and n < $1::integer + ${BATCH}))`,
        [low],
      );
    }
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
