import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import type pg from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, inject, it, vi } from 'vitest';
import { createPool, type DatabaseConfig, ensureLogins } from '../../../shared/database/index.ts';
import { silentLog } from '../../../shared/telemetry/index.ts';
import { counterConsumer, createEffects, effectHandler, effectsOf } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { silentProxy } from '../../support/silent-proxy.ts';
import { contextFor, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
const reader = database.pool('sealed_ledger', 1);
const pools: pg.Pool[] = [];

beforeAll(() => createEffects(database));
afterEach(() => void vi.useRealTimers());
afterAll(async () => {
  await Promise.allSettled(pools.map((pool) => pool.end()));
});

/** A sandbox's pool, as a function makes it. */
function sandboxPool(config: DatabaseConfig, max: number, applicationName = 'sandbox'): pg.Pool {
  const pool = createPool(config, { max, applicationName, log: silentLog });
  pools.push(pool);
  return pool;
}

const record = (counter: string, sequence = 1) => fifoRecord(counter, counterEnvelope({ counter, sequence }));

/** The wall clock goes on as it does over a sandbox that is frozen; timers do not. */
function thawAfter(minutes: number): void {
  const now = Date.now();
  vi.useFakeTimers({ toFake: ['Date'] });
  vi.setSystemTime(now + minutes * 60_000);
}

/** Handlers that wait for one another inside their transactions, so that all connections are in use at once. */
function meeting(consumer: string) {
  const everybody = Promise.withResolvers<void>();
  let present = 0;
  return {
    present: () => present,
    open: () => everybody.resolve(),
    handlers: {
      'counter.added': async (...[event, context]: Parameters<ReturnType<typeof effectHandler>>) => {
        present += 1;
        await everybody.promise;
        await effectHandler(consumer)(event, context);
      },
    },
  };
}

describe('cold consumers', () => {
  const user = `cold_${randomBytes(6).toString('hex')}`;
  const { password } = inject('postgres');
  let migrator: pg.Client;
  let superuser: pg.Client;

  const config = (): DatabaseConfig => ({ ...database.config('sealed_ledger'), user });
  const limitTo = (connections: number) =>
    ensureLogins(migrator, [{ user, roles: ['inbox_consumer'], connections }], { auth: 'password', password });
  const connectionsNow = async (): Promise<number> => {
    const { rows } = await superuser.query('select count(*)::int as n from pg_stat_activity where usename = $1', [
      user,
    ]);
    return rows[0].n;
  };

  beforeAll(async () => {
    [migrator, superuser] = await Promise.all([database.client('sealed_migrator'), database.superuser()]);
    await limitTo(50);
    await migrator.query(`grant select, insert on effect to ${user}`);
  });
  afterAll(async () => {
    await Promise.allSettled(pools.map((pool) => pool.end()));
    await migrator.query(`revoke all on effect from ${user}; drop role ${user}`);
  });

  const sandboxes = (name: string, count: number, handlers: ReturnType<typeof meeting>['handlers']) =>
    Array.from({ length: count }, (_, index) => {
      const pool = sandboxPool(config(), 1);
      return { ...counterConsumer({ name, pool, handlers }), pool, record: record(`${name}-${index}`) };
    });

  it('case 25: fifty at once, as many as the limit was sized for, all get their connection and apply their events', async () => {
    const meet = meeting('fifty');
    const cold = sandboxes('fifty', 50, meet.handlers);
    const invoked = Promise.all(cold.map(({ handler, record: one }) => invoke(handler, [one], contextFor(60_000))));
    await expect.poll(meet.present, { timeout: 30_000 }).toBe(50);
    expect(await connectionsNow()).toBe(50);
    meet.open();
    expect((await invoked).flat()).toEqual([]);
    expect(await effectsOf(reader, 'fifty')).toHaveLength(50);
    await Promise.all(cold.map(({ pool }) => pool.end()));
  });

  it('like case 25: over the limit they return their messages to be tried again; nothing crashes, nothing is lost or done twice', async () => {
    await expect.poll(connectionsNow).toBe(0);
    await limitTo(20);
    const meet = meeting('crowd');
    const cold = sandboxes('crowd', 50, meet.handlers);
    let returned = 0;
    const first = cold.map(async (sandbox) => {
      const ids = await invoke(sandbox.handler, [sandbox.record], contextFor(60_000));
      returned += ids.length;
      return ids.length === 0 ? [] : [sandbox];
    });
    await expect.poll(() => meet.present() + returned, { timeout: 30_000 }).toBe(50);
    expect(returned).toBeGreaterThanOrEqual(30);
    expect(await connectionsNow()).toBeLessThanOrEqual(20);
    meet.open();
    let left = (await Promise.all(first)).flat();
    for (const { log, metrics } of left) {
      expect(log.lines).toMatchObject([{ fields: { class: 'retry', code: '53300' } }]);
      expect(metrics.sum('Returned', { Class: 'retry' })).toBe(1);
    }
    // Sandboxes end; those that are left find room, some at a time.
    await Promise.all(cold.filter((it) => !left.includes(it)).map(({ pool }) => pool.end()));
    while (left.length > 0) {
      const tried = await Promise.all(
        left.map(async (sandbox) => ({ sandbox, ids: await invoke(sandbox.handler, [sandbox.record]) })),
      );
      const done = tried.filter(({ ids }) => ids.length === 0);
      await Promise.all(done.map(({ sandbox }) => sandbox.pool.end()));
      left = tried.filter(({ ids }) => ids.length > 0).map(({ sandbox }) => sandbox);
    }
    const effects = await effectsOf(reader, 'crowd');
    expect(new Set(effects.map(({ counter }) => counter)).size).toBe(50);
    expect(effects).toHaveLength(50);
  });

  it('like case 25: one that gets fewer connections than its pool may have works with those and returns the rest', async () => {
    await expect.poll(connectionsNow).toBe(0);
    await limitTo(2);
    const meet = meeting('few');
    const pool = sandboxPool(config(), 4);
    const { handler, log } = counterConsumer({ name: 'few', pool, handlers: meet.handlers, together: 1 });
    const records = ['a', 'b', 'c', 'd'].map((counter) => record(counter));
    const invoked = invoke(handler, records, contextFor(60_000));
    await expect.poll(() => meet.present() + log.lines.length, { timeout: 30_000 }).toBeGreaterThanOrEqual(4);
    meet.open();
    const returned = await invoked;
    expect(returned.length).toBeGreaterThanOrEqual(1);
    for (const { fields } of log.lines) expect(fields).toMatchObject({ class: 'retry', code: '53300' });
    const effects = await effectsOf(reader, 'few');
    expect(effects.length).toBe(4 - returned.length);
    expect(effects.length).toBeGreaterThanOrEqual(1);
    await pool.end();
  });
});

describe('a thawed sandbox', () => {
  it('case 24: finds its connections cut by the server, and the next invocation works', async () => {
    const pool = sandboxPool(database.config('sealed_ledger'), 2, 'cut-while-frozen');
    const { handler, log } = counterConsumer({ name: 'cut', pool });
    expect(await invoke(handler, [record('a'), record('b')])).toEqual([]);
    const { host, port, database: name } = database.config('sealed_ledger');
    const superuser = `postgres://postgres:${inject('postgres').password}@${host}:${port}/${name}`;
    // Nothing of this process runs meanwhile: that the connections are gone it learns after the thaw.
    const script = new URL('../../support/terminate-backends.ts', import.meta.url).pathname;
    const ended = spawnSync(process.execPath, [script, superuser, 'cut-while-frozen'], { encoding: 'utf8' });
    expect(ended).toMatchObject({ status: 0, stderr: '' });
    thawAfter(10);
    expect(await invoke(handler, [record('a', 2), record('b', 2)])).toEqual([]);
    expect(log.lines).toEqual([]);
    expect(await effectsOf(reader, 'cut')).toHaveLength(4);
  });

  it('like case 24: finds all of its connections silent, throws them away and works on new ones, within its time', async () => {
    const config = database.config('sealed_ledger');
    const proxy = await silentProxy(config.port);
    const pool = sandboxPool({ ...config, port: proxy.port }, 4);
    const meet = meeting('silent');
    const { handler, log } = counterConsumer({ name: 'silent', pool, handlers: meet.handlers, together: 1 });
    const counters = ['a', 'b', 'c', 'd'];
    const warm = invoke(
      handler,
      counters.map((counter) => record(counter)),
    );
    await expect.poll(meet.present).toBe(4);
    meet.open();
    expect(await warm).toEqual([]);
    expect(pool.idleCount).toBe(4);

    proxy.silence();
    thawAfter(10);
    const next = counters.map((counter) => record(counter, 2));
    expect(await invoke(handler, next, contextFor(30_000))).toEqual([]);
    expect(log.lines).toEqual([]);
    expect(await effectsOf(reader, 'silent')).toHaveLength(8);
  });

  it('does not ask connections that were in use a moment ago', async () => {
    const pool = sandboxPool(database.config('sealed_ledger'), 1);
    const { handler } = counterConsumer({ name: 'busy', pool });
    await invoke(handler, [record('a')]);
    let taken = 0;
    pool.on('acquire', () => (taken += 1));
    await invoke(handler, [record('a', 2)]);
    expect(taken).toBe(1);
    thawAfter(10);
    await invoke(handler, [record('a', 3)]);
    expect(taken).toBe(3);
  });
});

describe("the invocation's time", () => {
  it('bounds a connection that is never made: the messages go back, and a later invocation works', async () => {
    const config = database.config('sealed_ledger');
    const proxy = await silentProxy(config.port);
    const pool = sandboxPool({ ...config, port: proxy.port }, 2);
    const { handler, log } = counterConsumer({ name: 'unmade', pool });
    const records = [record('a'), record('b')];
    proxy.swallow();
    expect(await invoke(handler, records, contextFor(400))).toEqual(records.map(({ messageId }) => messageId));
    expect(log.lines).toMatchObject([{ fields: { class: 'time', code: 'OUT_OF_TIME', count: 2 } }]);
    proxy.answer();
    expect(await invoke(handler, records)).toEqual([]);
    expect(await effectsOf(reader, 'unmade')).toHaveLength(2);
  });

  it('bounds a connection of a warm sandbox, too, that is never made', async () => {
    const config = database.config('sealed_ledger');
    const proxy = await silentProxy(config.port);
    const pool = sandboxPool({ ...config, port: proxy.port }, 2);
    const { handler, log } = counterConsumer({ name: 'warm', pool });
    await invoke(handler, [record('a')]);
    // No other time-out may come to the rescue.
    pool.options.connectionTimeoutMillis = 0;
    const gone = once(pool, 'remove');
    proxy.cut();
    await gone;
    proxy.swallow();
    const records = [record('a', 2), record('b')];
    expect(await invoke(handler, records, contextFor(400))).toEqual(records.map(({ messageId }) => messageId));
    expect(log.lines.filter(({ level }) => level !== 'debug')).toMatchObject([
      { fields: { consumer: 'warm', count: 1 } },
      { fields: { consumer: 'warm', count: 1 } },
    ]);
    expect(await effectsOf(reader, 'warm')).toHaveLength(1);
    proxy.cut();
  });

  it('bounds the look at idle connections, too', async () => {
    const config = database.config('sealed_ledger');
    const proxy = await silentProxy(config.port);
    const pool = sandboxPool({ ...config, port: proxy.port }, 1);
    const { handler, log } = counterConsumer({ name: 'short', pool });
    expect(await invoke(handler, [record('a')])).toEqual([]);
    proxy.silence();
    thawAfter(10);
    const second = record('a', 2);
    // Less than a probe waits.
    expect(await invoke(handler, [second], contextFor(300))).toEqual([second.messageId]);
    expect(log.lines).toMatchObject([{ fields: { class: 'time' } }]);
    expect(await invoke(handler, [second], contextFor(30_000))).toEqual([]);
  });
});
