import { beforeEach, describe, expect, it } from 'vitest';
import { startReplay, systemClock } from '../../shared/outbox/index.ts';
import { advanceCursor, type Cursor, START } from '../../shared/outbox/relay/cursor.ts';
import type { Delivery } from '../../shared/outbox/relay/delivery.ts';
import { find, type FindResult, load } from '../../shared/outbox/relay/find.ts';
import { noFloors, raiseFloor } from '../../shared/outbox/relay/floors.ts';
import { keepLease, register } from '../../shared/outbox/relay/lease.ts';
import { settle } from '../../shared/outbox/relay/settle.ts';
import { bulkLoad, type Visits, visitsOf } from '../support/bulk.ts';
import { testDatabase } from '../support/database.ts';
import { append, installCatalogue, thing } from '../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const relay = await database.client('sealed_relay');
const ALL = Array.from({ length: 64 }, (_, number) => number);
const ME = '00000000-0000-4000-8000-000000000001';
const PAGE = 1_000;

beforeEach(async () => {
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay, outbox.replay');
  await owner.query('update outbox.partition set lease_owner = null, lease_expires_at = null');
  await installCatalogue(owner);
});

async function destination() {
  const { rows } = await owner.query(
    `select number, name, kind, ordered, group_id as "groupId" from outbox.destination where name = 'queue'`,
  );
  return rows[0] as Parameters<typeof find>[1]['destination'];
}

async function look(
  cursor: Cursor = START,
  page = PAGE,
  floors: ReadonlyMap<string, bigint> = new Map(),
): Promise<{ result: FindResult; visits: Visits; next: Cursor }> {
  const request = { destination: await destination(), partitions: ALL, cursor, wake: [], page, cut: 100, floors };
  const { result, visits } = await visitsOf(relay, () => find(relay, request));
  return { result, visits, next: advanceCursor(cursor, result.scan, page) };
}

/** Reads the events of what was found and settles all as published, on partitions that are leased. */
async function publish({ chains }: FindResult, most = PAGE): Promise<Visits> {
  const found = chains.flatMap(({ rows }) => rows).slice(0, most);
  const { visits } = await visitsOf(relay, async () => {
    const loaded = await load(relay, found, '/test');
    expect(loaded.size).toBe(found.length);
    await settle(
      relay,
      ME,
      [...loaded.values()].map((delivery: Delivery) => ({
        delivery,
        token: '0',
        outcome: { kind: 'published', messageId: 'm' } as const,
      })),
    );
  });
  return visits;
}

/** What the planner is told, before and after 12,000 events are loaded. */
const STATISTICS = [
  ['that nobody ever gathered', [], []],
  ['of an empty table', ['analyze outbox.event, outbox.delivery'], []],
  [
    'that are wrong by a factor of a million',
    [],
    [
      'analyze outbox.event, outbox.delivery',
      `update pg_class set reltuples = case when relkind = 'r' then 1 else 1000000000 end, relpages = case when relkind = 'r' then 1 else 100000000 end
        where oid in (select 'outbox.delivery'::regclass union select 'outbox.event'::regclass
                      union select indexrelid from pg_index where indrelid in ('outbox.delivery'::regclass, 'outbox.event'::regclass))`,
    ],
  ],
] as const;

describe.each(STATISTICS)('with statistics %s', (_what, before, after) => {
  beforeEach(async () => {
    const superuser = await database.superuser();
    await superuser.query('alter table outbox.delivery set (autovacuum_enabled = off)');
    await superuser.query('alter table outbox.event set (autovacuum_enabled = off)');
    for (const sql of before) await superuser.query(sql);
    await bulkLoad(owner, 12_000, { aggregates: 4_000 });
    for (const sql of after) await superuser.query(sql);
    await superuser.end();
  });

  it('case 27: a look reads its limit and no more, by the index of what is pending', async () => {
    const PAGE = 400;
    const first = await look(START, PAGE);
    expect(first.result.scan.rows).toBe(PAGE);
    expect(first.visits).toMatchObject({ sequentialScans: 0, pending: PAGE });
    // Of each aggregate that it met, what is not yet out: three events.
    expect(first.result.chains).toHaveLength(PAGE);
    expect(first.visits.chain).toBe(3 * PAGE);
    const second = await look(first.next, PAGE);
    expect(second.visits).toMatchObject({ sequentialScans: 0, pending: PAGE });
  });

  it('like case 27: reading the events and settling them touches these rows only, never a whole table', async () => {
    const { result } = await look();
    // Few of many: settling each second row of a table is rightly done by a walk through it.
    expect(await publish(result, 20)).toMatchObject({ sequentialScans: 0 });
  });
});

describe.each(STATISTICS)('what is parked, with statistics %s', (_what, before, after) => {
  beforeEach(async () => {
    const superuser = await database.superuser();
    await superuser.query('alter table outbox.delivery set (autovacuum_enabled = off)');
    await superuser.query('alter table outbox.event set (autovacuum_enabled = off)');
    for (const sql of before) await superuser.query(sql);
    await bulkLoad(owner, 3_000);
    await bulkLoad(owner, 1_000, { aggregates: 1, prefix: 'long' });
    for (const sql of after) await superuser.query(sql);
    await superuser.end();
  });

  it('like case 27: a slice is blocked behind a head by what it blocks, however much waits or is blocked there', async () => {
    const { rows } = await owner.query(
      `update outbox.delivery set state = 'parked' from outbox.event e
        where e.id = event_id and e.aggregate_id like 'long%' and delivery.sequence = 1
        returning destination, aggregate_key as key`,
    );
    const [{ destination: number, key }] = rows;
    let reached: string | null = null;
    for (let slice = 0; slice < 3; slice += 1) {
      const { result, visits } = await visitsOf(relay, () =>
        relay.query('select more, reached_now as reached from outbox.apply_parking($1, $2, $3, 200)', [
          number,
          [key],
          [reached],
        ]),
      );
      expect(result.rows).toEqual([{ more: true, reached: `${1 + (slice + 1) * 200}` }]);
      // The head, the first behind it, and the slice.
      expect(visits).toEqual({
        sequentialScans: 0,
        pending: 0,
        chain: expect.toSatisfy((read: number) => read <= 205),
      });
      reached = result.rows[0].reached;
    }
  });

  it('like case 27: a replay that waits for a person is passed over without reading what waits', async () => {
    const replayed = { destination: 'queue', scope: { aggregateType: 'thing' }, perSecond: 1_000 };
    const number = await startReplay(database.pool('sealed_operator'), replayed, 'test');
    await owner.query('update outbox.replay set planned_at = now()');
    await owner.query(
      `insert into outbox.delivery (event_id, destination, partition, replay, aggregate_key, sequence, bytes, state)
       select event_id, destination, partition, $1, aggregate_key, sequence, bytes,
              case when sequence = 1 then 'parked' else 'blocked' end::outbox.delivery_state
         from outbox.delivery where replay = 0`,
      [number],
    );
    const { result, visits } = await visitsOf(relay, () =>
      relay.query('select number from outbox.next_replay($1)', [1]),
    );
    expect(result.rows).toEqual([]);
    expect(visits).toMatchObject({ sequentialScans: 0 });
  });
});

describe('a step of planning a replay', () => {
  it('reads nothing of a live backlog that the planner does not know of', async () => {
    const superuser = await database.superuser();
    await superuser.query('alter table outbox.delivery set (autovacuum_enabled = off)');
    await bulkLoad(owner, 300);
    await superuser.query(`update outbox.delivery set state = 'published'`);
    await superuser.query('vacuum analyze outbox.event, outbox.delivery');
    await superuser.end();
    const replayed = { destination: 'queue', scope: { aggregateType: 'thing' }, perSecond: 1_000 };
    const number = await startReplay(database.pool('sealed_operator'), replayed, 'test');
    await bulkLoad(owner, 2_000, { prefix: 'live' });
    const { result, visits } = await visitsOf(relay, () =>
      relay.query('select outbox.plan_replay($1, 3000) as planned', [number]),
    );
    expect(result.rows).toEqual([{ planned: false }]);
    // Of each aggregate what waits is looked up twice: whether it was under way, and whether it comes by itself.
    expect(visits).toEqual({ sequentialScans: 0, pending: 0, chain: 4_000 });
    expect((await owner.query('select planned from outbox.replay')).rows).toEqual([{ planned: '300' }]);
  });
});

describe('the claim of partitions', () => {
  it.each([
    'enable_hashjoin',
    'enable_mergejoin',
    'enable_nestloop',
    'enable_material',
    'enable_seqscan',
    'enable_indexscan',
  ])('like case 27: takes what is missing and no more, also where the planner may not use %s', async (setting) => {
    await owner.query('analyze outbox.partition');
    const client = await database.client('sealed_relay');
    await client.query(`set ${setting} = off`);
    const lease = await register(client, ME, 'slot', 30, systemClock);
    await owner.query(
      `insert into outbox.relay (owner, slot) select gen_random_uuid(), 'other-' || n from generate_series(1, 6) n`,
    );
    await keepLease(client, lease, systemClock);
    const { rowCount } = await owner.query('select from outbox.partition where lease_owner = $1', [ME]);
    expect([lease.held.size, rowCount]).toEqual([lease.share, lease.share]);
    expect(lease.share).toBeLessThanOrEqual(10);
  });
});

describe('a bulk load into an empty table', () => {
  it('case 28: the first look takes a page of it, as fast as of a small table', async () => {
    await bulkLoad(owner, 8_000);
    const { result, visits } = await look();
    expect(result.chains).toHaveLength(PAGE);
    expect(visits).toEqual({ sequentialScans: 0, pending: PAGE, chain: PAGE });
  });

  it('like case 28: all of one aggregate: the first look takes a slice of it', async () => {
    await bulkLoad(owner, 8_000, { aggregates: 1 });
    const { result, visits } = await look();
    expect(result.chains.map(({ rows, cut }) => [rows.length, cut])).toEqual([[100, true]]);
    expect(visits).toEqual({ sequentialScans: 0, pending: PAGE, chain: 100 });
  });
});

describe('a snapshot that is held open', () => {
  async function held(begin: string): Promise<() => Promise<void>> {
    const client = await database.superuser();
    await client.query(begin);
    await client.query('select pg_current_snapshot()');
    return async () => {
      await client.query('commit');
      await client.end();
    };
  }

  /** Rounds of writing, looking and settling: what each look visited, and where the next one begins. */
  async function rounds(count: number): Promise<{ all: Visits[]; cursor: Cursor }> {
    const all: Visits[] = [];
    let cursor = START;
    for (let round = 0; round < count; round += 1) {
      await append(writer, ...Array.from({ length: 200 }, (_, n) => thing(`r${round}-${n}`)));
      const { result, visits, next } = await look(cursor);
      expect(result.chains).toHaveLength(200);
      await publish(result);
      cursor = next;
      all.push(visits);
    }
    return { all, cursor };
  }

  it('case 29: what a look reads stays the same, although nothing that was published can be cleaned up', async () => {
    const release = await held('begin isolation level repeatable read');
    const { all } = await rounds(8);
    expect(all).toEqual(all.map(() => ({ sequentialScans: 0, pending: 200, chain: 200 })));
    await release();
  });

  it('like case 29: nor does a look-up of one aggregate that is met again and again', async () => {
    const release = await held('begin isolation level repeatable read');
    const floors = noFloors();
    let cursor = START;
    const chain: number[] = [];
    for (let round = 0; round < 12; round += 1) {
      await append(writer, ...Array.from({ length: 20 }, () => thing('hot')));
      const { result, visits, next } = await look(cursor, PAGE, floors.far);
      for (const { key, rows } of result.chains) raiseFloor(floors, key, rows[0]!.sequence);
      await publish(result);
      cursor = next;
      chain.push(visits.chain);
    }
    expect(chain.slice(0, 6)).toEqual([20, 40, 60, 80, 100, 120]);
    expect(chain.slice(7)).toEqual([40, 40, 40, 40, 40]);
    await release();
  });

  it('case 29: a settlement writes no row of a partition: their dead versions would make each next one slower', async () => {
    const release = await held('begin isolation level repeatable read');
    await append(writer, ...Array.from({ length: 200 }, (_, n) => thing(`s${n}`)));
    const { result } = await look();
    const version = async () =>
      (await owner.query('select array_agg(xmin::text || ctid::text order by number) as v from outbox.partition'))
        .rows[0].v;
    await owner.query(`update outbox.partition set lease_owner = $1, lease_expires_at = 'infinity'`, [ME]);
    const before = await version();
    const loaded = await load(
      relay,
      result.chains.flatMap(({ rows }) => rows),
      '/test',
    );
    const entries = [...loaded.values()].map((delivery) => ({
      delivery,
      token: '0',
      outcome: { kind: 'retry', delayMs: 60_000, error: 'Odd' } as const,
    }));
    await settle(relay, ME, entries);
    expect(await version()).toEqual(before);
    await release();
  });

  it('like case 29: a writing transaction that stays open costs each look one more entry at most, and its events are found', async () => {
    const open = await database.client('sealed_writer');
    await open.query('begin');
    await append(open, thing('late'));
    const { all, cursor } = await rounds(8);
    for (const { pending, chain } of all) expect([pending - 200, chain]).toEqual([expect.toBeOneOf([0, 1]), 200]);
    await open.query('commit');
    const { result } = await look(cursor);
    expect(result.chains.map(({ rows }) => rows.length)).toEqual([1]);
  });
});
