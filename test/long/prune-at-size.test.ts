import { expect, it } from 'vitest';
import { runRelay } from '../../shared/outbox/index.ts';
import { bulkLoad } from '../support/bulk.ts';
import { testDatabase } from '../support/database.ts';
import { until } from '../support/lease-clock.ts';
import { append, installCatalogue, orderBreaks, recordingPublisher, relayOptions, thing } from '../support/outbox.ts';
import { letAge, pruneOutbox, publishAll } from '../support/retention.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer', 4);
const janitor = database.pool('sealed_janitor');
const OLD = 1_000_000;
const MOST_WAIT_MS = 50;

it('case 30: a million events go while others are written and published, and nobody waits for a lock', async () => {
  await installCatalogue(owner);
  for (let from = 0; from < OLD; from += 100_000) {
    await bulkLoad(owner, 100_000, { aggregates: 10_000, prefix: `old-${from}` });
    await publishAll(owner);
  }
  await letAge(owner, 30);
  const queue = recordingPublisher();
  const stop = new AbortController();
  const running = runRelay(relayOptions(database, { queue }, { mode: 'continuous', signal: stop.signal }));
  let written = 0;
  const pruned = new AbortController();
  let longestWaitMs = 0;
  const write = async (): Promise<void> => {
    while (!pruned.signal.aborted) {
      await append(writer, thing(`new-${written % 500}`), thing(`new-${(written + 1) % 500}`));
      written += 2;
    }
  };
  const watch = async (): Promise<void> => {
    const observer = await database.superuser();
    while (!pruned.signal.aborted) {
      const { rows } = await observer.query(
        `select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart)) * 1000, 0)::float8 as ms
           from pg_locks l join pg_stat_activity j on j.pid = any (pg_blocking_pids(l.pid))
          where not l.granted and j.usename = 'sealed_janitor'`,
      );
      longestWaitMs = Math.max(longestWaitMs, rows[0].ms);
    }
  };
  const load = Promise.all([write(), write(), watch()]);
  await until('the load', () => queue.accepted.length > 100);
  let removed = 0;
  // Runs as a schedule makes them, each with less time than all of it takes.
  for (let ended: string | undefined = 'time'; ended === 'time';) {
    const { walks } = await pruneOutbox(janitor, { sweepSeconds: 86_400 }, { budgetMs: 20_000, rest: 0.2 });
    removed += walks[0]?.removed['event'] ?? 0;
    ended = walks[0]?.ended;
  }
  pruned.abort();
  await load;
  await until('all that is new', () => queue.accepted.length === written);
  stop.abort();
  await running;
  expect(removed).toBe(OLD);
  const { rows } = await owner.query(`select count(*)::integer as n from outbox.event`);
  expect(rows[0].n).toBe(written);
  expect(orderBreaks(queue.accepted)).toBe(0);
  expect(longestWaitMs).toBeLessThan(MOST_WAIT_MS);
});
