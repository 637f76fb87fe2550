import { PgBoss } from 'pg-boss';
import { AT_ONCE, CONNECTIONS, messages, type Peer, type PeerMessage } from './peer.ts';

const QUEUE = 'send';
const FETCHERS = 4;

/** Policy key_strict_fifo: one job of a key at a time, in order; a batch is settled as a whole. */
export const pgBoss: Peer = {
  async prepare(start, admin) {
    const boss = new PgBoss({ ...start.connection, supervise: false, schedule: false });
    await boss.start();
    await boss.createQueue(QUEUE, { policy: 'key_strict_fifo' });
    const { rows } = await admin.query(messages(start));
    for (let n = 0; n < rows.length; n += 1000) {
      const jobs = rows.slice(n, n + 1000).map((row) => ({ data: row.payload, singletonKey: row.key }));
      await boss.insert(QUEUE, jobs);
    }
    await boss.stop();
  },

  async start({ connection }, send) {
    const boss = new PgBoss({ ...connection, max: CONNECTIONS, supervise: false, schedule: false });
    boss.on('error', (error) => console.error('pg-boss:', error.message));
    await boss.start();
    // Its `work` looks every half second at the soonest; fetch and complete are what `work` is made of.
    const next = async (): Promise<void> => {
      for (;;) {
        const jobs = await boss.fetch(QUEUE, { batchSize: AT_ONCE / FETCHERS });
        if (jobs.length === 0) await new Promise((resolve) => setTimeout(resolve, 50));
        else {
          await Promise.all(jobs.map((job) => send(job.data as PeerMessage)));
          await boss.complete(
            QUEUE,
            jobs.map((job) => job.id),
          );
        }
      }
    };
    void Promise.all(Array.from({ length: FETCHERS }, next));
  },
};
