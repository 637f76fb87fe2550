import { beforeEach, describe, expect, it } from 'vitest';
import { runRelay, systemClock } from '../../../shared/outbox/index.ts';
import { testDatabase } from '../../support/database.ts';
import { until } from '../../support/lease-clock.ts';
import {
  append,
  installCatalogue,
  orderBreaks,
  recordingPublisher,
  relayOptions,
  thing,
} from '../../support/outbox.ts';
import { letAge, pruneOutbox, publishAll } from '../../support/retention.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer', 4);
const janitor = database.pool('sealed_janitor');
const OLD = 6_000;

beforeEach(async () => {
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay');
  await owner.query(`update outbox.walk set mark = '0', swept_at = '-infinity' where name = 'deliveries'`);
  await installCatalogue(owner);
  for (let from = 0; from < OLD; from += 1000) {
    await append(writer, ...Array.from({ length: 1000 }, (_, n) => thing(`old-${n}`)));
  }
  await publishAll(owner);
  await letAge(owner, 30);
});

const count = async (where: string): Promise<number> =>
  (await owner.query(`select count(*)::integer as n from outbox.event where ${where}`)).rows[0].n;

describe('a system that is never idle', () => {
  it('case 30: is pruned while it writes and publishes; what is new arrives in order, and nobody waits for a lock', async () => {
    const queue = recordingPublisher();
    const stop = new AbortController();
    const running = runRelay(relayOptions(database, { queue }, { mode: 'continuous', signal: stop.signal }));
    let written = 0;
    const pruned = new AbortController();
    const blocked: unknown[] = [];
    const write = async (): Promise<void> => {
      while (!pruned.signal.aborted) {
        await append(writer, thing(`new-${written % 50}`), thing(`new-${(written + 1) % 50}`));
        written += 2;
      }
    };
    const watch = async (): Promise<void> => {
      const observer = await database.superuser();
      while (!pruned.signal.aborted) {
        // Whoever waits for the janitor, by the server's own account.
        const { rows } = await observer.query(
          `select w.pid, w.query from pg_stat_activity w join pg_stat_activity j on j.pid = any (pg_blocking_pids(w.pid))
            where j.usename = 'sealed_janitor' and w.datname = current_database()`,
        );
        blocked.push(...rows);
      }
    };
    const load = Promise.all([write(), write(), watch()]);
    await until('the load', () => queue.accepted.length > 20);
    const report = await pruneOutbox(janitor, { page: 200 });
    pruned.abort();
    await load;
    await until('all that is new', () => queue.accepted.length === written);
    stop.abort();
    await running;
    expect(report.walks[0]).toMatchObject({ removed: { event: OLD }, ended: 'end' });
    expect(await count(`aggregate_id like 'old-%'`)).toBe(0);
    expect(await count(`aggregate_id like 'new-%'`)).toBe(written);
    expect(orderBreaks(queue.accepted)).toBe(0);
    expect(blocked).toEqual([]);
  });

  it('like case 30: a page of a janitor that hangs holds up neither writers nor the relay', async () => {
    const hanging = await database.client('sealed_janitor');
    const { rows } = await hanging.query(`select outbox.begin_walk('deliveries', '0') as mark`);
    await hanging.query('begin');
    await hanging.query(`select * from outbox.prune($1, '10 days', 1000)`, [rows[0].mark]);
    const queue = recordingPublisher();
    await append(writer, ...Array.from({ length: 20 }, (_, n) => thing(`old-${n}`)));
    await runRelay(relayOptions(database, { queue }));
    expect(queue.accepted).toHaveLength(20);
    await hanging.query('rollback');
  });

  it('like case 30: a run that has little time goes on where the last one ended, until everything is gone', async () => {
    const runs: (string | undefined)[] = [];
    let ms = 0;
    let removed = 0;
    // Each look at the clock is a second.
    const clock = { ...systemClock, monotonic: () => (ms += 1_000), sleep: async () => {} };
    for (let run = 0; run < 50 && runs.at(-1) !== 'end'; run += 1) {
      const { walks } = await pruneOutbox(janitor, { page: 100, sweepSeconds: 3600 }, { budgetMs: 40_000, clock });
      removed += walks[0]?.removed['event'] ?? 0;
      runs.push(walks[0]?.ended);
    }
    expect(runs.at(-1)).toBe('end');
    expect(runs.length).toBeGreaterThan(3);
    expect([removed, await count('true')]).toEqual([OLD, 0]);
  });
});
