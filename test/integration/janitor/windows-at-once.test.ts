import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { migrate, readMigrations } from '../../../shared/database/index.ts';
import { endReplay, resetConsumer } from '../../../shared/inbox/index.ts';
import { effectsOf } from '../../support/counter-consumer.ts';
import { emptyDatabase, testDatabase } from '../../support/database.ts';
import { uuidAt } from '../../support/retention.ts';
import { invoke } from '../../support/sqs-batch.ts';
import { eventOf, windowsOf } from '../../support/windows.ts';

const database = await testDatabase();
const { pool, owner, operator, janitor, prepare, newName, processOf, prune, dedupeRows, held } = windowsOf(database);
beforeAll(prepare);

/** Until a connection of this database waits for another transaction. */
async function untilOneWaits(): Promise<void> {
  await expect
    .poll(async () => {
      const { rowCount } = await owner.query(
        `select from pg_locks l join pg_stat_activity a using (pid) where a.datname = current_database() and not l.granted`,
      );
      return rowCount;
    })
    .toBe(1);
}

describe('a consumer and a janitor at the same time', () => {
  const begun = async (user: 'sealed_janitor' | 'sealed_ledger'): Promise<pg.Client> => {
    const client = await database.client(user);
    await client.query('begin');
    return client;
  };

  it('a longer window, declared while a page goes by the one before, does not apply what goes with it', async () => {
    const name = newName();
    const { message } = eventOf(15);
    await invoke(processOf(name, 20), [message()]);
    await invoke(processOf(name, 10), []);
    await janitor.query(`select inbox.begin_walk($1, '0')`, [name]);
    const pruning = await begun('sealed_janitor');
    await pruning.query(`select inbox.prune($1, $2, '10 days', 100)`, [name, '00000000-0000-0000-0000-000000000000']);
    const raised = invoke(processOf(name, 60), [message()]);
    await untilOneWaits();
    await pruning.query('commit');
    expect(await raised).toEqual([]);
    expect(await effectsOf(pool, name)).toHaveLength(1);
    expect(await held(name)).toEqual(['too-old']);
  });

  // Ids in order: it waits for another transaction at the first event while the second one's dedupe row goes, or comes and goes.
  it.each([
    ['at once', { reset: false, meanwhile: false }],
    ['at once, of which one is applied meanwhile,', { reset: false, meanwhile: true }],
    ['one by one, of which one is applied meanwhile,', { reset: true, meanwhile: true }],
  ])('one that takes events %s and waits while a dedupe row goes does not apply its event', async (_, how) => {
    const name = newName();
    const before = processOf(name, 20);
    const [first, second] = [
      eventOf(1, { counter: 'a', id: uuidAt(0, 1) }),
      eventOf(15, { counter: 'b', id: uuidAt(0, 2) }),
    ];
    await invoke(before, []);
    if (how.reset) {
      // A consumer that was ever reset takes its events one by one.
      await resetConsumer(operator, name, { aggregateType: 'counter', aggregateId: 'z' }, 3, 'for its z');
      await endReplay(operator, name, 'nothing was sent');
    }
    if (!how.meanwhile) await invoke(before, [second.message()]);
    await invoke(processOf(name, 10), []);
    const other = await begun('sealed_ledger');
    await other.query('insert into inbox.processed_event values ($1, $2, now())', [name, first.id]);
    const taken = invoke(before, [first.message(), second.message()]);
    await untilOneWaits();
    if (how.meanwhile) await invoke(before, [second.message()]);
    expect(await effectsOf(pool, name)).toHaveLength(1);
    await prune();
    expect(await dedupeRows(name)).toEqual([]);
    await other.query('rollback');
    if ((await taken).length > 0) expect(await invoke(before, [first.message(), second.message()])).toEqual([]);
    expect((await effectsOf(pool, name)).map(({ counter }) => counter).toSorted()).toEqual(['a', 'b']);
  });
});

describe('the window of a consumer', () => {
  it('is that of the process that started last, and nothing else of its row changes', async () => {
    const name = newName();
    const registered = async () =>
      (await pool.query('select mode, window_days from inbox.consumer where name = $1', [name])).rows;
    for (const days of [20, 60, 10]) {
      await invoke(processOf(name, days), []);
      expect(await registered()).toEqual([{ mode: 'any', window_days: days }]);
    }
  });
});

describe('what earlier janitors removed and did not write down', () => {
  it('is taken from how far their walks had come; where that says nothing, to be what they kept by default', async () => {
    const client = await (await emptyDatabase()).client('sealed_migrator');
    const migrations = await readMigrations('migrations', ['inbox']);
    const before = migrations.findIndex(({ name }) => name === 'windows');
    await migrate(client, migrations.slice(0, before));
    await client.query(
      `insert into inbox.walk (consumer, mark, sweeping)
       values ('walked', inbox.uuid_at(now() - interval '20 days'), false), ('sweeping', inbox.uuid_at(now() - interval '300 days'), true),
              ('found-nothing', default, false), ('other-ids', 'f0000000-0000-4000-8000-000000000001', false)`,
    );
    await migrate(client, migrations);
    const { rows } = await client.query(
      `select consumer, round(extract(epoch from now() - before) / 3600)::integer as hours from inbox.pruned order by 1`,
    );
    expect(rows).toEqual([
      { consumer: 'found-nothing', hours: 35 * 24 },
      { consumer: 'other-ids', hours: 35 * 24 },
      { consumer: 'sweeping', hours: 35 * 24 },
      { consumer: 'walked', hours: 20 * 24 - 2 },
    ]);
  });
});
