import { describe, expect, inject, it } from 'vitest';
import { probeDatabase } from '../../../functions/monitor/probe.ts';
import { asSuperuser } from '../../../local/postgres.ts';
import type { Queryable } from '../../../shared/database/index.ts';
import { testDatabase } from '../../support/database.ts';
import { recordingLog } from '../../support/recorders.ts';

const database = await testDatabase();
const monitor = await database.client('sealed_monitor');

/** What a probe reports, by metric, and how often it warned. */
async function probed(db: Queryable = monitor): Promise<{ metrics: Record<string, number>; warnings: string[] }> {
  const metrics: Record<string, number> = {};
  const log = recordingLog();
  await probeDatabase(db, { log, metrics: { add: (name, _unit, value) => (metrics[name] = value) } });
  return { metrics, warnings: log.lines.filter(({ level }) => level === 'warn').map(({ message }) => message) };
}

/** Transactions that are given an id, one after the other. */
async function transactions(count: number): Promise<void> {
  const writer = await database.client('sealed_migrator');
  for (let done = 0; done < count; done += 1) await writer.query('select pg_current_xact_id()');
}

describe('a probe of the database', () => {
  it('finds nothing open where nothing is, and how near the server is to its limits', async () => {
    const { metrics, warnings } = await probed();
    expect(metrics).toEqual({
      OldestTransactionAge: 0,
      SnapshotAge: 0,
      TransactionIdAge: expect.any(Number),
      ConnectionsUsed: expect.any(Number),
    });
    expect(metrics['TransactionIdAge']).toBeGreaterThan(0);
    expect(metrics['ConnectionsUsed']).toBeGreaterThan(0);
    expect(metrics['ConnectionsUsed']).toBeLessThanOrEqual(100);
    expect(warnings).toEqual([]);
  });

  it("sees another user's open transaction by its age, and the rows that its snapshot keeps, until it ends", async () => {
    const client = await database.client('sealed_api');
    await client.query('begin isolation level repeatable read');
    await client.query('select 1');
    await transactions(5);
    const open = await probed();
    expect(open.metrics['OldestTransactionAge']).toBeGreaterThan(0);
    expect(open.metrics['SnapshotAge']).toBeGreaterThanOrEqual(5);
    await client.query('rollback');
    expect((await probed()).metrics).toMatchObject({ OldestTransactionAge: 0, SnapshotAge: 0 });
  });

  it('sees a replication slot that nobody reads hold rows, although no transaction is open', async () => {
    const server = inject('postgres');
    const slot = `probe_${process.pid}`;
    await asSuperuser(server, database.name, async (superuser) => {
      await superuser.query('select pg_create_logical_replication_slot($1, $2)', [slot, 'pgoutput']);
      try {
        await transactions(5);
        const { metrics } = await probed();
        expect(metrics['SnapshotAge']).toBeGreaterThanOrEqual(5);
        expect(metrics['OldestTransactionAge']).toBe(0);
      } finally {
        await superuser.query('select pg_drop_replication_slot($1)', [slot]);
      }
    });
    expect((await probed()).metrics['SnapshotAge']).toBe(0);
  });

  it('is shown no statement, user or address of another session', async () => {
    const api = await database.client('sealed_api');
    await api.query('select 1');
    const { rows } = await monitor.query(
      `select distinct query, xact_start, client_addr from pg_stat_activity where usename = 'sealed_api' and datname = current_database()`,
    );
    expect(rows).toEqual([{ query: '<insufficient privilege>', xact_start: null, client_addr: null }]);
    await expect(monitor.query('set role outbox_observer')).rejects.toMatchObject({ code: '42501' });
  });

  it('has no ages where the database does not show them, rather than wrong ones, and says what to grant', async () => {
    const server = inject('postgres');
    const { metrics, warnings } = await asSuperuser(server, database.name, async (superuser) => {
      // In a transaction that is rolled back: nobody else sees the role without its right.
      await superuser.query('begin');
      await superuser.query(`revoke pg_monitor from outbox_observer granted by sealed_migrator`);
      const { rows } = await superuser.query('select oldest_transaction, snapshot_age from outbox.database_age()');
      expect(rows).toEqual([{ oldest_transaction: null, snapshot_age: null }]);
      const found = await probed(superuser);
      await superuser.query('rollback');
      return found;
    });
    expect(Object.keys(metrics).toSorted()).toEqual(['ConnectionsUsed', 'TransactionIdAge']);
    expect(warnings).toEqual([expect.stringContaining('grant pg_read_all_stats to outbox_observer')]);
  });
});
