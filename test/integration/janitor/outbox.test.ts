import { randomUUID } from 'node:crypto';
import fc from 'fast-check';
import { beforeEach, describe, expect, it } from 'vitest';
import { migrate, readMigrations } from '../../../shared/database/index.ts';
import { emptyDatabase, testDatabase } from '../../support/database.ts';
import { append, drain, installCatalogue, recordingPublisher, thing } from '../../support/outbox.ts';
import { DAY, KEEP, letAge, pruneOutbox, publishAll, remaining, uuidAt } from '../../support/retention.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const janitor = database.pool('sealed_janitor');
const OLD = 30;

beforeEach(async () => {
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay restart identity');
  await owner.query(`update outbox.walk set mark = case name when 'deliveries' then '0' else '00000000-0000-0000-0000-000000000000' end,
                            sweeping = false, swept_at = '-infinity'`);
  await installCatalogue(
    owner,
    [
      { type: 'thing.happened' },
      { type: 'thing.single', destinations: ['queue'] },
      { type: 'thing.silent', destinations: [] },
    ],
    [
      { name: 'queue', kind: 'sqs-fifo' },
      { name: 'other', kind: 'sqs-fifo' },
    ],
  );
});

const single = (id: string): Record<string, unknown> => thing(id, {}, { type: 'thing.single' });

describe('what is out everywhere and old', () => {
  it('goes with its deliveries; what is younger stays', async () => {
    await append(writer, thing('a'), thing('a'), thing('b'));
    await publishAll(owner);
    await letAge(owner, OLD);
    await append(writer, thing('a'));
    await publishAll(owner);
    await letAge(owner, 1);
    const { walks } = await pruneOutbox(janitor);
    expect((await remaining(owner)).events).toEqual(['a#3']);
    expect(walks[0]).toMatchObject({ removed: { event: 3, delivery: 6 }, ended: 'end', behindSeconds: 0 });
  });

  it('leaves the streams alone: a sequence that was used never comes again', async () => {
    await append(writer, thing('a'), thing('a'));
    await publishAll(owner);
    await letAge(owner, OLD);
    await pruneOutbox(janitor);
    expect(await append(writer, thing('a'))).toEqual([3n]);
  });

  it('counts from the publication, not from the writing: an outage does not shorten what is kept', async () => {
    await append(writer, single('a'));
    await letAge(owner, OLD);
    await publishAll(owner);
    await pruneOutbox(janitor);
    expect((await remaining(owner)).events).toEqual(['a#1']);
    await letAge(owner, KEEP / DAY + 1);
    await pruneOutbox(janitor);
    expect((await remaining(owner)).events).toEqual([]);
  });

  it('waits for the last of its destinations', async () => {
    await append(writer, thing('a'));
    await publishAll(owner);
    await letAge(owner, OLD);
    await owner.query(`update outbox.delivery set published_at = now() where destination = 2`);
    await pruneOutbox(janitor, { page: 1 });
    expect(await remaining(owner)).toMatchObject({
      events: ['a#1'],
      deliveries: [expect.any(String), expect.any(String)],
    });
  });

  it.each(['pending', 'parked', 'blocked'])(
    'stays where one of its deliveries is %s, however old, and far away in the table',
    async (state) => {
      await append(writer, thing('a'));
      // As if a million deliveries of others had been written between the two of this event.
      await owner.query('alter table outbox.delivery alter column position restart with 1000000');
      await owner.query('update outbox.delivery set position = default where destination = 2');
      await publishAll(owner);
      await owner.query(`update outbox.delivery set state = $1, published_at = null where destination = 2`, [state]);
      await letAge(owner, 1000);
      await pruneOutbox(janitor, { page: 1 });
      expect(await remaining(owner)).toMatchObject({
        events: ['a#1'],
        deliveries: [expect.any(String), expect.any(String)],
      });
    },
  );

  it('stays while a replay has still to send it, and goes with the rows of the replay when they are old, too', async () => {
    await append(writer, single('a'), single('b'));
    await publishAll(owner);
    await owner.query(`insert into outbox.delivery (event_id, destination, partition, aggregate_key, sequence, bytes, replay, state, published_at)
      select event_id, destination, partition, aggregate_key, sequence, bytes, 1,
             case when aggregate_key = outbox.aggregate_key('thing', 'a') then 'pending' else 'published' end::outbox.delivery_state, now() from outbox.delivery`);
    await letAge(owner, OLD);
    await pruneOutbox(janitor);
    expect(await remaining(owner)).toMatchObject({
      events: ['a#1'],
      deliveries: [expect.any(String), expect.any(String)],
    });
    await owner.query(`update outbox.delivery set state = 'published', published_at = now() where replay = 1`);
    await letAge(owner, OLD);
    await pruneOutbox(janitor);
    expect(await remaining(owner)).toEqual({ events: [], deliveries: [] });
  });

  it('stays while a replay has still to send it, however far away in the table', async () => {
    await append(writer, single('a'));
    await publishAll(owner);
    await owner.query('alter table outbox.delivery alter column position restart with 2000000');
    await owner.query(`insert into outbox.delivery (event_id, destination, partition, aggregate_key, sequence, bytes, replay)
      select event_id, destination, partition, aggregate_key, sequence, bytes, 1 from outbox.delivery`);
    await letAge(owner, OLD);
    await pruneOutbox(janitor, { page: 1 });
    expect((await remaining(owner)).events).toEqual(['a#1']);
    await publishAll(owner);
    await pruneOutbox(janitor, { page: 1 });
    expect(await remaining(owner)).toMatchObject({ events: [], deliveries: ['2000000'] });
    await letAge(owner, OLD);
    await pruneOutbox(janitor, { page: 1 });
    expect((await remaining(owner)).deliveries).toEqual([]);
  });

  it('all stays while a replay reads events, and the walk says how far it falls behind', async () => {
    await append(writer, single('a'));
    await publishAll(owner);
    await letAge(owner, OLD);
    const superuser = await database.superuser();
    await superuser.query(
      'create or replace function outbox.replay_reads_events() returns boolean language sql stable set search_path = pg_catalog, pg_temp return true',
    );
    const { walks } = await pruneOutbox(janitor);
    await superuser.query(
      'create or replace function outbox.replay_reads_events() returns boolean language sql stable set search_path = pg_catalog, pg_temp return false',
    );
    expect((await remaining(owner)).events).toEqual(['a#1']);
    expect(walks[0]?.behindSeconds).toBeCloseTo(OLD * DAY - KEEP, -2);
    await pruneOutbox(janitor);
    expect((await remaining(owner)).events).toEqual([]);
  });
});

describe('a transaction that is open for longer than events are kept', () => {
  it('case 31: commits late: its event is sent, not pruned', async () => {
    const late = await database.client('sealed_writer');
    await late.query('begin');
    await append(late, single('late'));
    await append(writer, single('early'));
    await publishAll(owner);
    await letAge(owner, OLD);
    await pruneOutbox(janitor);
    await late.query('commit');
    // What the clock of the late transaction wrote is as old as that of the others.
    await letAge(owner, OLD);
    await pruneOutbox(janitor);
    expect((await remaining(owner)).events).toEqual(['late#1']);
    const queue = recordingPublisher();
    await drain(database, queue, { publishers: { queue, other: recordingPublisher() } });
    expect(queue.accepted).toHaveLength(1);
    await pruneOutbox(janitor);
    expect((await remaining(owner)).events).toEqual(['late#1']);
  });

  it('like case 31: what it published is met below the mark, by the next walk from the beginning', async () => {
    const late = await database.client('sealed_writer');
    await late.query('begin');
    await append(late, single('late'));
    await append(writer, single('early'));
    await publishAll(owner);
    await letAge(owner, OLD);
    await pruneOutbox(janitor, { sweepSeconds: 3600 });
    await late.query('commit');
    await publishAll(owner);
    await letAge(owner, OLD);
    await pruneOutbox(janitor, { sweepSeconds: 3600 });
    expect((await remaining(owner)).events).toEqual(['late#1']);
    await pruneOutbox(janitor, { sweepSeconds: 0 });
    expect((await remaining(owner)).events).toEqual([]);
  });
});

describe('an event that no route takes anywhere', () => {
  it('goes by its own time', async () => {
    const old = Date.now() - OLD * DAY * 1000;
    const occurred = new Date(old).toISOString();
    const silent = (id: string, at: string, event: string) =>
      thing(id, {}, { type: 'thing.silent', occurred_at: at, id: event });
    await append(
      writer,
      silent('old', occurred, uuidAt(old, 1)),
      silent('other-id', occurred, 'ffffffff-0000-4000-8000-000000000001'),
      silent('young', new Date().toISOString(), uuidAt(Date.now(), 1)),
      silent('young-time', new Date().toISOString(), uuidAt(old, 2)),
    );
    await pruneOutbox(janitor, { page: 1 });
    expect((await remaining(owner)).events).toEqual(['young#1', 'young-time#1']);
  });

  const old = Date.now() - OLD * DAY * 1000;
  const ago = (id: string, n: number, type: string): Record<string, unknown> =>
    thing(id, {}, { type, occurred_at: new Date(old).toISOString(), id: uuidAt(old, n) });
  const DESTINATIONS = [{ name: 'queue', kind: 'sqs-fifo' }] as const;
  const since = async (type: string): Promise<Date | null> =>
    (await owner.query('select routed_since from outbox.event_type where type = $1', [type])).rows[0].routed_since;

  it('goes, too, when its type has a route by now; what took that route lately stays', async () => {
    await installCatalogue(owner, [{ type: 'thing.first', destinations: [] }], DESTINATIONS);
    await append(writer, ago('before', 1, 'thing.first'), thing('lately', {}, { type: 'thing.first' }));
    await installCatalogue(owner, [{ type: 'thing.first' }], DESTINATIONS);
    await append(writer, ago('after', 2, 'thing.first'));
    await publishAll(owner);
    await letAge(owner, OLD);
    await owner.query('update outbox.delivery set published_at = now()');
    await pruneOutbox(janitor, { page: 1 });
    expect((await remaining(owner)).events).toEqual(['after#1', 'lately#1']);
  });

  it('is no longer looked for when all of them must be gone', async () => {
    await installCatalogue(owner, [{ type: 'thing.second', destinations: [] }], DESTINATIONS);
    expect(await since('thing.second')).toBeNull();
    await installCatalogue(owner, [{ type: 'thing.second' }], DESTINATIONS);
    await pruneOutbox(janitor);
    expect(await since('thing.second')).toBeInstanceOf(Date);
    // A type that is new has no events of before; another version changes nothing.
    await installCatalogue(
      owner,
      [{ type: 'thing.second' }, { type: 'thing.second', schema_version: 2 }, { type: 'thing.third' }],
      DESTINATIONS,
    );
    expect(await since('thing.third')).toBeNull();
    await owner.query(`update outbox.event_type set routed_since = routed_since - $1 * interval '1 second'`, [
      KEEP + 2 * DAY,
    ]);
    await pruneOutbox(janitor, { sweepSeconds: 3600 });
    expect(await since('thing.second')).toBeInstanceOf(Date);
    await pruneOutbox(janitor);
    expect(await since('thing.second')).toBeNull();
  });
});

describe('an upgrade', () => {
  it('lets events go that earlier versions had left for ever, and none that was published lately', async () => {
    const before = await emptyDatabase();
    const migrator = await before.client('sealed_migrator');
    const migrations = await readMigrations('migrations', ['outbox']);
    await migrate(
      migrator,
      migrations.filter(({ number }) => number <= 15),
    );
    await installCatalogue(migrator);
    const old = Date.now() - OLD * DAY * 1000;
    const events = ['left', 'lately', 'gone', 'tombstone'].map((id, n) =>
      thing(id, {}, { occurred_at: new Date(old).toISOString(), id: uuidAt(old, n + 1) }),
    );
    await append(migrator, ...events);
    await publishAll(migrator);
    await letAge(migrator, OLD);
    await migrator.query(`
      update outbox.event set type = 'outbox.skipped' where aggregate_id = 'tombstone';
      delete from outbox.delivery where aggregate_key in (outbox.aggregate_key('thing', 'left'), outbox.aggregate_key('thing', 'tombstone'));
      update outbox.delivery set published_at = now() where aggregate_key = outbox.aggregate_key('thing', 'lately')`);
    await pruneOutbox(migrator);
    expect((await remaining(migrator)).events).toEqual(['lately#1', 'left#1', 'tombstone#1']);
    await migrate(migrator, migrations);
    await pruneOutbox(migrator);
    expect((await remaining(migrator)).events).toEqual(['lately#1']);
  });
});

describe('whatever there is', () => {
  type State = 'pending' | 'parked' | 'blocked' | 'set_aside' | 'published' | 'published lately';
  const state = fc.constantFrom<State>(
    'pending',
    'parked',
    'blocked',
    'set_aside',
    'published',
    'published',
    'published',
    'published lately',
  );
  const event = fc.record({
    type: fc.constantFrom('thing.happened', 'thing.happened', 'thing.single', 'thing.silent'),
    aggregate: fc.integer({ min: 0, max: 4 }),
    states: fc.tuple(state, state),
    replay: fc.option(state, { freq: 4 }),
    oldId: fc.boolean(),
    oldTime: fc.boolean(),
  });
  const world = fc.record({
    events: fc.array(event, { minLength: 1, maxLength: 25 }),
    young: fc.nat(6),
    page: fc.integer({ min: 1, max: 9 }),
  });

  it('exactly what nobody needs goes, whatever the size of the pages', async () => {
    await fc.assert(
      fc.asyncProperty(world, async ({ events, young, page }) => {
        await owner.query('truncate outbox.delivery, outbox.event, outbox.stream');
        const ids: string[] = [];
        for (const [n, it] of events.entries()) {
          const ms = Date.now() - (it.oldId ? OLD * DAY * 1000 : 0);
          ids.push(n % 5 === 4 ? randomUUID() : uuidAt(ms, n + 1));
          const occurred_at = new Date(Date.now() - (it.oldTime ? OLD * DAY * 1000 : 0)).toISOString();
          await append(writer, thing(`a${it.aggregate}`, {}, { type: it.type, id: ids[n], occurred_at }));
        }
        const set = async (where: string, values: unknown[], to: State) =>
          owner.query(
            `update outbox.delivery set state = $1::outbox.delivery_state, published_at = case $1 when 'published' then now() - $2 * interval '1 day' end
              where ${where}`,
            [to === 'published lately' ? 'published' : to, to === 'published' ? OLD : 1, ...values],
          );
        for (const [n, it] of events.entries()) {
          for (const [index, to] of it.states.entries())
            await set('event_id = $3 and destination = $4 and replay = 0', [ids[n], index + 1], to);
          if (it.replay === null) continue;
          await owner.query(
            `insert into outbox.delivery (event_id, destination, partition, aggregate_key, sequence, bytes, replay)
             select event_id, destination, partition, aggregate_key, sequence, bytes, 7 from outbox.delivery where event_id = $1 and destination = 1`,
            [ids[n]],
          );
          await set('event_id = $3 and replay > 0', [ids[n]], it.replay);
        }
        // The last ones are young; deliveries of one event are of one time.
        await owner.query(
          `update outbox.delivery set created_at = now() - case when event_id = any ($1) or replay > 0 and $3 then interval '0' else $2 * interval '1 day' end`,
          [ids.slice(events.length - young), OLD, young > 0],
        );
        const model = await expected(owner);
        await pruneOutbox(janitor, { page });
        expect(await left(owner)).toEqual(model);
      }),
      { seed: 20_261_130, numRuns: 25 },
    );
  }, 120_000);
});

interface Left {
  readonly events: readonly string[];
  readonly deliveries: readonly string[];
}

async function left(db: typeof owner): Promise<Left> {
  const { rows } = await db.query(`
    select (select coalesce(array_agg(id::text order by id), '{}') from outbox.event) as events,
           (select coalesce(array_agg(position::text order by position), '{}') from outbox.delivery) as deliveries`);
  return rows[0];
}

/** What must be left, computed from what there is without any code of the product. */
async function expected(db: typeof owner): Promise<Left> {
  const cutoff = Date.now() - KEEP * 1000;
  const { rows: deliveries } = await db.query(
    'select position::text, event_id, state::text, replay, created_at, published_at from outbox.delivery order by delivery.position',
  );
  const { rows: events } = await db.query('select id::text, type, occurred_at from outbox.event order by id');
  const edge = deliveries.findIndex((d) => d.created_at.getTime() >= cutoff);
  const walked = edge === -1 ? deliveries : deliveries.slice(0, edge);
  const over = (d: (typeof deliveries)[number]): boolean =>
    (d.state === 'published' && d.published_at.getTime() < cutoff) ||
    (d.state === 'set_aside' && d.created_at.getTime() < cutoff);
  const goes = (id: string): boolean => {
    const own = deliveries.filter((d) => d.event_id === id);
    return own.every(over) && own.some((d) => walked.includes(d));
  };
  const ms = (id: string): number => Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
  const silent = (event: (typeof events)[number]): boolean =>
    event.type === 'thing.silent' &&
    event.occurred_at.getTime() < cutoff &&
    (ms(event.id) < cutoff || ms(event.id) >= Date.now() + DAY * 1000);
  return {
    events: events.filter((event) => !goes(event.id) && !silent(event)).map((event) => event.id),
    deliveries: deliveries.filter((d) => !goes(d.event_id)).map((d) => d.position),
  };
}
