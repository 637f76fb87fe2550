import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { testDatabase } from '../support/database.ts';
import { append, drain, installCatalogue, places, recordingPublisher, thing } from '../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writers = database.pool('sealed_writer', 12);

beforeAll(() => installCatalogue(owner));
beforeEach(async () => {
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream');
});

/** Writers' sessions that wait for another transaction. */
const waiting = async (): Promise<number> => {
  const { rows } = await writers.query(
    `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
  );
  return rows.length;
};

describe('writers beside each other', () => {
  it('like case 1: A takes its place first and rolls back after B was sent: nothing of A is ever sent, and B once', async () => {
    const a = await database.client('sealed_writer');
    await a.query('begin');
    await append(a, thing('undone'), thing('shared'));
    await append(writers, thing('early'));
    const queue = recordingPublisher();
    await drain(database, queue);
    await a.query('rollback');
    await append(writers, thing('shared'));
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['early#1', 'shared#1']);
  });

  it('like case 2: of two that wait for a third the one that is first rolls back: the other gets its sequence', async () => {
    const first = await database.client('sealed_writer');
    const waiters = [await database.client('sealed_writer'), await database.client('sealed_writer')];
    for (const tx of [first, ...waiters]) await tx.query('begin');
    expect(await append(first, thing('a'))).toEqual([1n]);
    const appending = waiters.map(async (tx) => ({ tx, sequences: await append(tx, thing('a')) }));
    await expect.poll(waiting).toBe(2);
    await first.query('commit');
    const winner = await Promise.race(appending);
    expect(winner.sequences).toEqual([2n]);
    await winner.tx.query('rollback');
    const results = await Promise.all(appending);
    const other = results.find(({ tx }) => tx !== winner.tx);
    expect(other?.sequences).toEqual([2n]);
    await other?.tx.query('commit');
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2']);
  });

  it('like case 7: ten write the first events of two new aggregates at once, in opposite orders', async () => {
    const all = await Promise.all(
      Array.from({ length: 10 }, (_, index) => {
        const events = [thing('new-1'), thing('new-2')];
        return append(writers, ...(index % 2 === 0 ? events : events.toReversed()));
      }),
    );
    expect(all.flat()).toHaveLength(20);
    for (const counter of ['new-1', 'new-2']) {
      const { rows } = await owner.query(
        'select array_agg(sequence::int order by sequence) as all from outbox.event where aggregate_id = $1',
        [counter],
      );
      expect(rows).toEqual([{ all: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10] }]);
    }
  });

  it('like case 58: a session that is off by its own setting is refused, and each of its appends until it is on', async () => {
    const client = await database.client('sealed_writer');
    await client.query('set synchronous_commit = off');
    for (const statement of ['select 1', 'begin']) {
      await client.query(statement);
      await expect(append(client, thing('a'))).rejects.toMatchObject({ code: 'OB004' });
    }
    await client.query('rollback');
    await client.query('begin; set local synchronous_commit = on');
    expect(await append(client, thing('a'))).toEqual([1n]);
    await client.query('commit');
    await expect(append(client, thing('a'))).rejects.toMatchObject({ code: 'OB004' });
    const { rows } = await owner.query('select count(*)::int as events from outbox.event');
    expect(rows).toEqual([{ events: 1 }]);
  });
});
