/** Writers at a fixed rate: each commits on time whether or not the one before was quick, so that a slow server shows as latency. */
import { v7 as uuidv7 } from 'uuid';
import pg from 'pg';
import { answerQuestions, now } from './harness/process.ts';
import type { Written, WritersStart } from './harness/writers.ts';

const TICK_MS = 5;
/** 2,000 a second of 4 ms each, and the late ones, need 10; what is more would only queue in the server. */
const CONNECTIONS = 24;
/** Until JavaScript and plans are as they stay. */
const WARM_UP_ROUNDS = 10;

/**
 * Every connection is open and has appended before the clock starts. Otherwise half a second of events waits for 24 logins and first plans: a tenth
 * of a load of five seconds, and the whole p99 of one of twenty.
 */
async function warmUp(pool: pg.Pool, values: (id: string) => unknown[]): Promise<void> {
  const clients = await Promise.all(Array.from({ length: CONNECTIONS }, () => pool.connect()));
  for (let n = 0; n < WARM_UP_ROUNDS; n += 1) {
    await Promise.all(
      clients.map(async (client) => {
        await client.query('begin');
        await client.query('select outbox.append($1)', values(uuidv7()));
        await client.query('rollback');
      }),
    );
  }
  for (const client of clients) client.release();
}

/** What was asked for ends earlier. */
let isOver = false;

answerQuestions({
  end() {
    isOver = true;
  },
  async run(start: WritersStart): Promise<Written[]> {
    // Kept: by default all that were never needed end together after ten seconds, and the first stall opens them again.
    const pool = new pg.Pool({ ...start.connection, max: CONNECTIONS, idleTimeoutMillis: 0 });
    // An idle connection that the server ends is no failure: the next write opens another.
    pool.on('error', () => {});
    const written: Written[] = [];
    const data = { text: 'x'.repeat(start.bytes) };
    await warmUp(pool, (id) => [
      JSON.stringify([{ id, type: 'thing.happened', aggregate_type: 'thing', aggregate_id: id, data }]),
    ]);
    const write = async (n: number): Promise<void> => {
      const dueAt = now();
      const id = uuidv7();
      const hot = start.hotEvery !== undefined && n % start.hotEvery === 0;
      const aggregateId = hot ? 'thing-hot' : `thing-${Math.floor(Math.random() * start.aggregates)}`;
      const late = Math.random() < start.lateShare;
      const values = [
        JSON.stringify([{ id, type: 'thing.happened', aggregate_type: 'thing', aggregate_id: aggregateId, data }]),
      ];
      if (late) {
        const client = await pool.connect();
        try {
          await client.query('begin');
          await client.query('select outbox.append($1)', values);
          await new Promise((resolve) => setTimeout(resolve, start.lateMs));
          await client.query('commit');
        } finally {
          client.release();
        }
      } else {
        await pool.query('select outbox.append($1)', values);
      }
      const committedAt = now();
      written.push([id, committedAt, committedAt - dueAt]);
    };
    const startedAt = performance.now();
    const open = new Set<Promise<void>>();
    let issued = 0;
    let failure: Error | undefined;
    const goesOn = (ms: number): boolean => !isOver && failure === undefined && ms < start.seconds * 1000;
    for (let ms = 0; goesOn(ms); ms = performance.now() - startedAt) {
      for (const due = Math.floor((ms * start.rate) / 1000); issued < due; issued += 1) {
        const one = write(issued)
          .catch((error: unknown) => (failure = error as Error))
          .finally(() => open.delete(one)) as Promise<void>;
        open.add(one);
      }
      await new Promise((resolve) => setTimeout(resolve, TICK_MS));
    }
    await Promise.all(open);
    await pool.end();
    if (failure !== undefined) throw failure;
    return written;
  },
});
