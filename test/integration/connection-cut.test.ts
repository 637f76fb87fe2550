import { expect, it, vi } from 'vitest';
import { createPool } from '../../shared/database/index.ts';
import { type Clock, runRelay, systemClock } from '../../shared/outbox/index.ts';
import { silentLog } from '../../shared/telemetry/index.ts';
import { testDatabase } from '../support/database.ts';
import { append, emptyOutbox, installCatalogue, recordingPublisher, relayOptions, thing } from '../support/outbox.ts';
import { recordingLog } from '../support/recorders.ts';
import { silentProxy } from '../support/silent-proxy.ts';

const database = await testDatabase();

it('a connection of the pool that is cut while it is handed out and idle does not end the process', async () => {
  const pool = createPool(database.config('sealed_writer'), { max: 1, applicationName: 'test', log: silentLog });
  const client = await pool.connect();
  const { rows } = await client.query('select pg_backend_pid() as pid');
  const ended = new Promise<void>((resolve) => client.once('end', resolve));
  await (await database.superuser()).query('select pg_terminate_backend($1)', [rows[0].pid]);
  await ended;
  await expect(client.query('select 1')).rejects.toThrow();
  client.release(true);
  await pool.end();
});

it('like case 24: a relay whose connection is cut again and again never waits longer than after the first time', async () => {
  await installCatalogue(database.pool('sealed_migrator'));
  const superuser = await database.superuser();
  const log = recordingLog();
  const stop = new AbortController();
  const running = runRelay(
    relayOptions(database, { queue: recordingPublisher() }, { mode: 'continuous', log, signal: stop.signal }),
  );
  const cuts = 5;
  for (let cut = 1; cut <= cuts; cut += 1) {
    await vi.waitFor(
      async () => {
        // Only a relay that is at work, and so has found its database again, is cut.
        await superuser.query(
          `select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and usename = 'sealed_relay' and query like '%outbox.find%'`,
        );
        expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(cut);
      },
      { timeout: 20_000, interval: 50 },
    );
  }
  stop.abort();
  await running;
  const waits = log.lines.filter(({ level }) => level === 'error').map(({ fields }) => Number(fields['retryInMs']));
  expect(Math.max(...waits)).toBeLessThanOrEqual(500);
}, 60_000);

/** Forty times as fast as the machine's: a lease is over in less than a second. */
const QUICK: Clock = {
  monotonic: () => systemClock.monotonic() * 40,
  wall: () => systemClock.wall(),
  sleep: (ms, signal) => systemClock.sleep(ms / 40, signal),
};

it('a relay whose connection falls silent goes on with another, charges nothing, and still ends when it is told to', async () => {
  const owner = database.pool('sealed_migrator');
  await emptyOutbox(owner);
  await installCatalogue(owner);
  const { port, ...config } = database.config('sealed_relay');
  const proxy = await silentProxy(port);
  const [log, queue, stop] = [recordingLog(), recordingPublisher(), new AbortController()];
  const through = { config: () => ({ ...config, port: proxy.port }) } as unknown as typeof database;
  const running = runRelay(
    relayOptions(through, { queue }, { mode: 'continuous', log, signal: stop.signal, clock: QUICK }),
  );
  const published = async (): Promise<number | null> =>
    (await owner.query(`select from outbox.delivery where state = 'published' and attempts = 0`)).rowCount;
  await append(owner, thing('a'));
  await expect.poll(published, { timeout: 20_000 }).toBe(1);
  proxy.silence();
  await append(owner, thing('a'));
  await expect.poll(published, { timeout: 20_000 }).toBe(2);
  expect(log.lines.map(({ fields }) => fields['code'])).toContain('DATABASE_SILENT');
  proxy.silence();
  stop.abort();
  expect((await running).ended).toBe('stopped');
});
