import { describe, expect, it, vi } from 'vitest';
import { countedPool } from '../../bench/harness/counted-pool.ts';
import { testDatabase } from '../support/database.ts';

const database = await testDatabase();

describe('the pool of the benchmarks', () => {
  it('answers to the pool itself and to its clients, and counts', async () => {
    const { pool, counts, serverProcesses } = countedPool({ ...database.config('sealed_ledger'), max: 1 });
    expect((await pool.query('select $1::integer as n', [1])).rows).toEqual([{ n: 1 }]);
    const client = await pool.connect();
    await client.query('begin');
    await client.query('select; commit');
    expect(serverProcesses.size).toBe(1);
    client.release();
    await pool.end();
    expect(counts).toEqual({ statements: 3, transactions: 1 });
    await vi.waitFor(() => expect(serverProcesses.size).toBe(0));
  });

  it('goes on after the server has ended an idle connection', async () => {
    const { pool } = countedPool({ ...database.config('sealed_ledger'), max: 1 });
    const ended = new Promise((resolve) => pool.once('error', resolve));
    await pool.query(`set idle_session_timeout = '50ms'`);
    await ended;
    expect((await pool.query('select 1 as n')).rows).toEqual([{ n: 1 }]);
    await pool.end();
  });
});
