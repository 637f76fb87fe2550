import pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { counterConsumer, createEffects, effectsOf } from '../../support/counter-consumer.ts';
import { counterEnvelope } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
beforeAll(() => createEffects(database));

const record = fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 1 }));

describe('a consumer', () => {
  it('is entered once, however many functions start at the same time', async () => {
    const pools = [1, 2, 3, 4].map(() => database.pool('sealed_ledger', 1));
    await Promise.all(pools.map((pool) => invoke(counterConsumer({ name: 'entered', pool }).handler, [record])));
    const { rows } = await database
      .pool('sealed_ledger')
      .query(`select name, mode, starting_point from inbox.consumer where name = 'entered'`);
    expect(rows).toEqual([{ name: 'entered', mode: 'strict', starting_point: 'beginning' }]);
  });

  it('whose mode or starting point was changed is refused, and touches nothing', async () => {
    const pool = database.pool('sealed_ledger');
    await invoke(counterConsumer({ name: 'fixed', pool }).handler, []);
    const refusal = { code: 'CONSUMER_CHANGED' };
    await expect(invoke(counterConsumer({ name: 'fixed', mode: 'any', pool }).handler, [record])).rejects.toMatchObject(
      {
        ...refusal,
        message: expect.stringContaining('mode strict and was started with any') as string,
      },
    );
    const moved = counterConsumer({ name: 'fixed', startingPoint: 'first-seen', pool });
    await expect(invoke(moved.handler, [record])).rejects.toMatchObject(refusal);
    // Not only the first time.
    await expect(invoke(moved.handler, [record])).rejects.toMatchObject(refusal);
    expect(await effectsOf(pool, 'fixed')).toEqual([]);
  });

  it('returns the whole batch while the database is away, and works when it is back', async () => {
    const { host, port, database: name, user } = database.config('sealed_ledger');
    const away = { host, port: 1, database: name, user, max: 1 };
    const pool = new pg.Pool(away);
    const { handler, log, metrics } = counterConsumer({ name: 'away', pool });
    expect(await invoke(handler, [record])).toEqual([record.messageId]);
    expect(log.lines).toMatchObject([{ level: 'error', fields: { class: 'retry', code: 'ECONNREFUSED', count: 1 } }]);
    expect(metrics.sum('Returned', { Class: 'retry' })).toBe(1);
    const config = database.config('sealed_ledger');
    Object.assign(pool.options, { port, password: 'password' in config ? config.password : undefined });
    expect(await invoke(handler, [record])).toEqual([]);
    await pool.end();
  });

  it('survives that its idle connections are cut between two invocations', async () => {
    const pool = database.pool('sealed_ledger', 2);
    const { handler } = counterConsumer({ name: 'idle-cut', pool });
    await invoke(handler, [record]);
    await database.pool('sealed_ledger').query(
      `select pg_terminate_backend(pid, 5000) from pg_stat_activity
        where datname = current_database() and usename = current_user and pid <> pg_backend_pid()`,
    );
    const next = fifoRecord('a', counterEnvelope({ counter: 'a', sequence: 2 }));
    let returned = await invoke(handler, [next]);
    if (returned.length > 0) returned = await invoke(handler, [next]);
    expect(returned).toEqual([]);
    expect(await effectsOf(pool, 'idle-cut')).toHaveLength(2);
  });

  it('leaves a connection that leads to a former writer after a fail-over', async () => {
    const pool = database.pool('sealed_ledger', 1);
    const { handler, log } = counterConsumer({ name: 'fail-over', pool });
    await invoke(handler, []);
    await pool.query('set default_transaction_read_only = on');
    expect(await invoke(handler, [record])).toEqual([record.messageId]);
    expect(log.lines).toMatchObject([{ fields: { class: 'retry', code: '25006' } }]);
    expect(await invoke(handler, [record])).toEqual([]);
  });
});
