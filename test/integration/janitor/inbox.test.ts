import { beforeEach, describe, expect, it } from 'vitest';
import { inboxWalks } from '../../../shared/inbox/index.ts';
import { walkOfFunction } from '../../../shared/retention/index.ts';
import { testDatabase } from '../../support/database.ts';
import { DAY, KEEP, uuidAt, walkAll } from '../../support/retention.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const janitor = database.pool('sealed_janitor');
const now = Date.now();
const daysAgo = (days: number): number => now - days * DAY * 1000;

beforeEach(() =>
  owner.query(
    'truncate inbox.processed_event, inbox.held_event, inbox.external_call, inbox.reset, inbox.consumer, inbox.walk, inbox.pruned',
  ),
);

async function processed(consumer: string, id: string, days: number): Promise<void> {
  await owner.query('insert into inbox.processed_event values ($1, $2, $3)', [consumer, id, new Date(daysAgo(days))]);
}

async function called(consumer: string, id: string, state: string): Promise<void> {
  await owner.query(
    `insert into inbox.external_call (consumer, event_id, name, idempotency_key, state) values ($1, $2, $3, 'k', $4)`,
    [consumer, id, state, state],
  );
}

async function prune({ page = 5_000, sweepSeconds = 0 } = {}) {
  return walkAll(await inboxWalks(janitor, { keepSeconds: KEEP, page, sweepSeconds }));
}

const left = async (): Promise<string[]> =>
  (await owner.query(`select consumer || ' ' || event_id as row from inbox.processed_event order by 1`)).rows.map(
    ({ row }) => row,
  );

describe('dedupe rows', () => {
  it('go by the time of their events, whenever the id was made and in whatever way, of each consumer', async () => {
    const OLD = uuidAt(daysAgo(30), 1);
    const RANDOM = ['00000000-0000-4000-8000-000000000001', 'f0000000-0000-4000-8000-000000000001'];
    for (const consumer of ['analytics', 'ledger']) {
      await processed(consumer, OLD, 30);
      await processed(consumer, uuidAt(daysAgo(30), 2), 1);
      await processed(consumer, uuidAt(daysAgo(1), 3), 1);
      for (const id of RANDOM) await processed(consumer, id, 30);
      await processed(consumer, 'f0000000-0000-4000-8000-000000000002', 1);
    }
    const { walks } = await prune({ page: 1 });
    expect(walks.map(({ walk, removed }) => [walk, removed['processed_event']])).toEqual([
      ['processed by analytics', 3],
      ['processed by ledger', 3],
      ['inbox.prune_counted', undefined],
    ]);
    const kept = [uuidAt(daysAgo(30), 2), uuidAt(daysAgo(1), 3), 'f0000000-0000-4000-8000-000000000002'];
    expect(await left()).toEqual(
      ['analytics', 'ledger'].flatMap((consumer) => kept.toSorted().map((id) => `${consumer} ${id}`)),
    );
  });

  it('stay a little longer than a consumer applies events so old: it may have begun just before', async () => {
    const minutesTooOld = (minutes: number): number => (KEEP + minutes * 60) / DAY;
    await processed('ledger', uuidAt(daysAgo(30), 1), minutesTooOld(10));
    await processed('ledger', uuidAt(daysAgo(30), 2), minutesTooOld(20));
    await prune();
    expect(await left()).toEqual([`ledger ${uuidAt(daysAgo(30), 1)}`]);
  });

  it('are met again by the next walk from the beginning, where they were too young for the last one', async () => {
    await processed('ledger', uuidAt(daysAgo(40), 1), 1);
    await processed('ledger', uuidAt(daysAgo(30), 2), 30);
    await prune();
    await owner.query(`update inbox.processed_event set event_time = event_time - interval '30 days'`);
    await prune({ sweepSeconds: 3600 });
    expect(await left()).toHaveLength(1);
    await prune({ sweepSeconds: 0 });
    expect(await left()).toEqual([]);
  });

  it('stay while their consumer accepts a replay: it may apply what is older than any window', async () => {
    await owner.query(
      `insert into inbox.consumer (name, mode, starting_point, replay_accepted, window_days) values ('ledger', 'any', 'beginning', 3, 5)`,
    );
    await processed('ledger', uuidAt(daysAgo(30), 1), 30);
    await processed('other', uuidAt(daysAgo(30), 1), 30);
    await prune();
    expect(await left()).toEqual([`ledger ${uuidAt(daysAgo(30), 1)}`]);
    await owner.query('update inbox.consumer set replay_accepted = 0');
    await prune();
    expect(await left()).toEqual([]);
  });

  it('are behind while their consumer accepts a replay, which somebody may have forgotten to end', async () => {
    await owner.query(
      `insert into inbox.consumer (name, mode, starting_point, replay_accepted) values ('ledger', 'any', 'beginning', 3)`,
    );
    await processed('ledger', uuidAt(daysAgo(90), 1), 90);
    await processed('ledger', uuidAt(daysAgo(1), 2), 1);
    const [walk] = await inboxWalks(janitor, { keepSeconds: 35 * DAY });
    const { behindSeconds } = await walk!.page(await walk!.begin());
    expect(behindSeconds / DAY).toBeCloseTo(55, 0);
    await owner.query(`delete from inbox.processed_event where event_time < now() - interval '2 days'`);
    expect(await walk!.page(await walk!.begin())).toMatchObject({ behindSeconds: 0 });
  });

  it('stay while something of the event is held, and so do positions, whatever their age', async () => {
    const id = uuidAt(daysAgo(30), 1);
    await processed('ledger', id, 30);
    await called('ledger', id, 'done');
    await owner.query(
      `insert into inbox.held_event (consumer, event_id, aggregate_type, aggregate_id, sequence, reason, body, held_at)
       values ('ledger', $1, 't', 'i', 1, 'late', '', now() - interval '1 year')`,
      [id],
    );
    await owner.query(`insert into inbox.stream_position values ('ledger', 't', 'i', 1) on conflict do nothing`);
    await prune();
    const { rows } =
      await owner.query(`select (select count(*) from inbox.processed_event) + (select count(*) from inbox.held_event)
      + (select count(*) from inbox.external_call) + (select count(*) from inbox.stream_position) as n`);
    expect(rows).toEqual([{ n: '4' }]);
  });

  it('take the answers of finished calls along; calls that are not done stay', async () => {
    const [old, young] = [uuidAt(daysAgo(30), 1), uuidAt(daysAgo(1), 2)];
    await processed('mail', old, 30);
    await processed('mail', young, 1);
    for (const id of [old, young]) for (const state of ['done', 'reserved', 'held']) await called('mail', id, state);
    await called('other', old, 'done');
    const { walks } = await prune();
    expect(walks[0]?.removed).toEqual({ processed_event: 1, external_call: 1 });
    const { rows } = await owner.query('select consumer, event_id, state from inbox.external_call order by 1, 2, 3');
    expect(rows.map(({ consumer, event_id, state }) => [consumer, event_id === old, state])).toEqual([
      ['mail', true, 'held'],
      ['mail', true, 'reserved'],
      ['mail', false, 'done'],
      ['mail', false, 'held'],
      ['mail', false, 'reserved'],
      ['other', true, 'done'],
    ]);
  });

  it('say how far the walk is behind while it is not through', async () => {
    for (let n = 0; n < 5; n += 1) await processed('ledger', uuidAt(daysAgo(30 - n), n), 30 - n);
    const {
      rows: [begun],
    } = await janitor.query(`select inbox.begin_walk('ledger', '0') as mark`);
    const { rows } = await janitor.query(`select * from inbox.prune('ledger', $1, $2 * interval '1 second', 2)`, [
      begun.mark,
      KEEP,
    ]);
    expect(rows[0]).toMatchObject({ processed: 2, more: true });
    expect(rows[0].behind_seconds).toBeCloseTo(29 * DAY - KEEP, -2);
  });
});

describe('counted failures', () => {
  const counted = (consumer: string, id: string, days: number, queued = true) =>
    owner.query(
      `insert into inbox.held_event (consumer, event_id, event_time, aggregate_type, aggregate_id, sequence, reason, body, queued)
       values ($1, $2, $3, 't', 'i', 1, 'failing', '', $4)`,
      [consumer, id, new Date(daysAgo(days)), queued],
    );
  const leftOf = async (): Promise<string[]> =>
    (await owner.query(`select consumer || ' ' || event_id as row from inbox.held_event order by 1`)).rows.map(
      ({ row }) => row,
    );
  const [FIRST, SECOND, THIRD] = [1, 2, 3].map((n) => uuidAt(daysAgo(30), n)) as [string, string, string];

  it('go when no queue has the message any more, a page at a time; what is held stays', async () => {
    await counted('ledger', FIRST, 30);
    await counted('ledger', SECOND, 1);
    await counted('ledger', THIRD, 30, false);
    await counted('mail', FIRST, 30);
    await counted('mail', SECOND, 30);
    const { walks } = await prune({ page: 2 });
    expect(walks).toMatchObject([{ area: 'inbox', pages: 2, removed: { 'inbox.prune_counted': 3 }, ended: 'end' }]);
    expect(await leftOf()).toEqual([`ledger ${SECOND}`, `ledger ${THIRD}`]);
  });

  it('stay while their consumer accepts a replay, and while a transaction is counting', async () => {
    await owner.query(
      `insert into inbox.consumer (name, mode, starting_point, replay_accepted) values ('ledger', 'any', 'beginning', 3)`,
    );
    await counted('ledger', FIRST, 30);
    await counted('mail', FIRST, 30);
    const counting = await database.client('sealed_migrator');
    await counting.query('begin');
    await counting.query(`update inbox.held_event set attempts = attempts + 1 where consumer = 'mail'`);
    await prune();
    await counting.query('commit');
    expect(await leftOf()).toEqual([`ledger ${FIRST}`, `mail ${FIRST}`]);
    await owner.query('update inbox.consumer set replay_accepted = 0');
    await prune();
    expect(await leftOf()).toEqual([]);
  });
});

describe('answers to requests of the sample', () => {
  it('go when no client repeats them any more, a page at a time', async () => {
    await owner.query(`insert into sample.idempotency (key, request_sha256, created_at)
      select 'old-' || n, sha256(''), now() - interval '8 days' from generate_series(1, 25) n
      union all select 'young', sha256(''), now() - interval '6 days'`);
    const { walks } = await walkAll([
      walkOfFunction(janitor, { name: 'sample.prune_idempotency', keepSeconds: 7 * DAY, page: 10 }),
    ]);
    expect(walks).toMatchObject([
      { area: 'sample', pages: 3, removed: { 'sample.prune_idempotency': 25 }, ended: 'end' },
    ]);
    expect((await owner.query('select key from sample.idempotency')).rows).toEqual([{ key: 'young' }]);
  });
});
