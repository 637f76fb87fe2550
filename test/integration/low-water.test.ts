import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { runRelay } from '../../shared/outbox/index.ts';
import { testDatabase } from '../support/database.ts';
import { pick as pickFrom, seeded } from '../chaos/random.ts';
import { append, installCatalogue, places, recordingPublisher, relayOptions, thing } from '../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const relay = database.pool('sealed_relay');

beforeEach(async () => {
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay, outbox.low_water');
  await installCatalogue(owner);
});

/** Writers in the middle of a transaction. */
const open: pg.PoolClient[] = [];
afterEach(async () => {
  for (const client of open.splice(0)) {
    await client.query('rollback');
    client.release();
  }
});

interface Mark {
  readonly xid: bigint;
  readonly open: readonly string[];
}

const mark = async (): Promise<Mark> => {
  const { rows } = await relay.query('select xid, open::text[] as open from outbox.mark_low_water(1::smallint)');
  return { xid: BigInt(rows[0].xid), open: rows[0].open };
};
const marked = async (): Promise<number> =>
  (await relay.query('select from outbox.low_water(1::smallint)')).rowCount ?? 0;

/** Pending deliveries that a walk from the mark would never meet. */
async function missedBy({ xid, open }: Mark): Promise<string[]> {
  const { rows } = await owner.query(
    `select aggregate_id || '#' || d.sequence as place
       from outbox.delivery d join outbox.event e on e.id = d.event_id
      where d.state = 'pending' and d.replay = 0 and d.xid < $1 and not d.xid = any ($2::xid8[])`,
    [xid.toString(), open],
  );
  return rows.map((row) => row.place);
}

describe('the low-water mark', () => {
  it.each([1, 2, 3, 4])(
    'once true stays true, whatever commits late, rolls back, is sent, parked, redriven or skipped (seed %i)',
    async (seed) => {
      const random = seeded(seed, 'low-water');
      const pick = <T>(of: readonly T[]): T | undefined => (of.length === 0 ? undefined : pickFrom(random, of));
      const marks: Mark[] = [];
      const positions = async (state: string): Promise<string[]> =>
        (
          await owner.query('select position from outbox.delivery where state = $1 order by position', [state])
        ).rows.map((row) => row.position);
      let written = 0;
      const event = (): unknown => thing(`a${(written += 1)}`); // one each: writers must not wait for each other
      const acts: readonly (() => Promise<unknown>)[] = [
        async () => {
          if (open.length >= 4) return;
          const client = await database.pool('sealed_writer').connect();
          open.push(client);
          await client.query('begin');
          // It has a transaction id, and writes later, or never.
          if (random() < 0.3) await client.query('select pg_current_xact_id()');
          else await append(client, event());
        },
        async () => pick(open) && append(pick(open)!, event()),
        async () => {
          const client = pick(open);
          if (client === undefined) return;
          open.splice(open.indexOf(client), 1);
          await client.query(random() < 0.7 ? 'commit' : 'rollback');
          client.release();
        },
        () => append(writer, event(), event()),
        async () =>
          owner.query(`update outbox.delivery set state = 'published' where position = $1`, [
            pick(await positions('pending')),
          ]),
        async () =>
          owner.query(`update outbox.delivery set state = 'published' where state = 'pending' and position % 3 > 0`),
        async () =>
          owner.query(`update outbox.delivery set state = 'parked' where position = $1`, [
            pick(await positions('pending')),
          ]),
        async () => {
          const parked = pick(await positions('parked'));
          const act = random() < 0.5 ? 'redrive' : 'skip';
          if (parked !== undefined) await owner.query(`select outbox.${act}($1, 'as the test wants it')`, [parked]);
        },
        async () => marks.push(await mark()),
        async () => marks.push(await mark()),
      ];
      for (let step = 0; step < 150; step += 1) {
        await pick(acts)!();
        for (const it of marks.slice(-20)) expect(await missedBy(it)).toEqual([]);
      }
      expect(marks.length).toBeGreaterThan(10);
      for (const client of open.splice(0)) {
        await client.query('commit');
        client.release();
      }
      for (const it of marks) expect(await missedBy(it)).toEqual([]);
      await owner.query(`update outbox.delivery set state = 'published' where state = 'pending'`);
      const { rows } = await owner.query('select pg_snapshot_xmax(pg_current_snapshot()) as xmax');
      expect((await mark()).xid).toBeGreaterThanOrEqual(BigInt(rows[0].xmax));
    },
  );

  it('a relay that starts above it sends what commits late below it, and in order', async () => {
    const late = await database.pool('sealed_writer').connect();
    open.push(late);
    await late.query('begin');
    await append(late, thing('late'), thing('late'));
    const { rows } = await late.query('select pg_current_xact_id() as xid');
    await append(writer, ...Array.from({ length: 50 }, (_, n) => thing(`early-${n}`)));
    const queue = recordingPublisher();
    await runRelay(relayOptions(database, { queue }, { mode: 'drain' }));
    expect(queue.accepted).toHaveLength(50);
    const made = await mark();
    expect(made.open).toContain(rows[0].xid); // and whoever else writes on this server
    expect(BigInt(rows[0].xid)).toBeLessThan(made.xid);
    const followed = append(writer, thing('late'));
    await late.query('commit');
    await followed;
    await runRelay(relayOptions(database, { queue }, { mode: 'drain' }));
    expect(places(queue.accepted).slice(50)).toEqual(['late#1', 'late#2', 'late#3']);
  });

  it('like case 32: of another server says nothing here: it came with a copy of the rows', async () => {
    await append(writer, thing('a'));
    await mark();
    expect(await marked()).toBe(1);
    // What a dump and its restore do: the same values, written by another transaction.
    await owner.query(`create table copied as select * from outbox.low_water`);
    await owner.query(`truncate outbox.low_water`);
    await owner.query(`insert into outbox.low_water select * from copied`);
    await owner.query(`drop table copied`);
    expect(await marked()).toBe(0);
    await mark();
    expect(await marked()).toBe(1);
  });

  it('is made by marking alone: a relay may not write it', async () => {
    await mark();
    for (const sql of [
      `update outbox.low_water set xid = '9'`,
      `insert into outbox.low_water (destination, xid, open) values (2, '9', '{}')`,
      'delete from outbox.low_water',
      'select * from outbox.next_low_water(1::smallint)',
    ]) {
      await expect(relay.query(sql)).rejects.toMatchObject({ code: '42501' });
    }
    await expect(writer.query('select * from outbox.mark_low_water(1::smallint)')).rejects.toMatchObject({
      code: '42501',
    });
  });
});
