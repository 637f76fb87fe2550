import { beforeEach, describe, expect, it } from 'vitest';
import { listParked, type Publisher, readLag, redrive, runRelay, skip } from '../../shared/outbox/index.ts';
import { statesOf } from '../support/chain.ts';
import { testDatabase } from '../support/database.ts';
import { leaseClock, until } from '../support/lease-clock.ts';
import {
  ACCEPTED,
  append,
  drain,
  emptyOutbox,
  installCatalogue,
  places,
  QUEUE,
  recordingPublisher,
  refused,
  relayOptions,
  thing,
} from '../support/outbox.ts';
import { recordingLog } from '../support/recorders.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const operator = database.pool('sealed_operator');
const monitor = database.pool('sealed_monitor');

const OLD = { name: 'old', kind: 'sqs-fifo' } as const;
const BUS = { name: 'bus', kind: 'eventbridge' } as const;
const types = [{ type: 'thing.happened' }, { type: 'thing.minor', when_parked: 'skip' as const }];

beforeEach(() => emptyOutbox(owner));

const lagOf = async (name: string) =>
  (await readLag(monitor)).destinations.find(({ destination }) => destination === name);

describe('a destination that was taken out of the catalogue while events waited', () => {
  beforeEach(async () => {
    await installCatalogue(owner, types, [QUEUE, OLD]);
    await append(writer, thing('a'), thing('a'), thing('b'));
    await installCatalogue(owner, types, [QUEUE]);
  });

  it('has its events parked with the reason, not dropped; the others go on', async () => {
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'b#1', 'a#2']);
    expect(await lagOf('old')).toMatchObject({ retired: true, pending: 0, parked: 2, blocked: 1 });
    const { parked } = await listParked(operator, { destination: 'old' });
    expect(parked.map(({ aggregateId, lastError }) => [aggregateId, lastError?.split(':')[0]])).toEqual([
      ['a', 'Unroutable'],
      ['b', 'Unroutable'],
    ]);
  });

  it('takes them all in order once it is listed again and they are redriven', async () => {
    await drain(database, recordingPublisher());
    await installCatalogue(owner, types, [QUEUE, OLD]);
    for (const { position } of (await listParked(operator)).parked) await redrive(operator, position, 'it is back');
    const old = recordingPublisher();
    await runRelay(relayOptions(database, { queue: recordingPublisher(), old }));
    expect(places(old.accepted).toSorted()).toEqual(['a#1', 'a#2', 'b#1']);
    expect(await lagOf('old')).toMatchObject({ retired: false, pending: 0, parked: 0, blocked: 0 });
  });

  it('is still served while the relay has a publisher for it', async () => {
    const old = recordingPublisher();
    await runRelay(relayOptions(database, { queue: recordingPublisher(), old }));
    expect(places(old.accepted)).toHaveLength(3);
  });
});

describe('much that waits at a destination without a way out', () => {
  /** Three aggregates, of which one has more than a slice. */
  beforeEach(async () => {
    await installCatalogue(owner, [...types, { type: 'thing.old', destinations: ['old'] }], [QUEUE, OLD]);
    for (const [id, events] of [
      ['a', 20],
      ['long', 5_500],
      ['c', 20],
    ] as const) {
      await append(writer, ...Array.from({ length: events }, () => thing(id, {}, { type: 'thing.old' })));
    }
    await append(writer, thing('d'));
    await installCatalogue(owner, types, [QUEUE]);
  });

  it('is blocked in slices, behind all of the heads, while the others go on', async () => {
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['d#1']);
    expect(await lagOf('old')).toMatchObject({ pending: 0, parked: 4, blocked: 5_537, orphaned: 0 });
  });

  it('is blocked by no statement beyond its bound, the lowest first, and none of it is sent meanwhile', async () => {
    const relay = await database.client('sealed_relay');
    const { rows: found } = await owner.query(
      `update outbox.delivery d set state = 'parked' from outbox.destination g
        where g.number = d.destination and g.name = 'old' and d.sequence = 1 returning d.destination, d.aggregate_key as key`,
    );
    let keys = found.map(({ key }) => ({ key, reached: null }));
    const [{ destination }] = found;
    for (let blocked = 0; keys.length > 0;) {
      const { rows } = await relay.query(
        'select key, more, reached_now as reached from outbox.apply_parking($1, $2, $3, 2000)',
        [destination, keys.map(({ key }) => key), keys.map(({ reached }) => reached)],
      );
      expect(rows.every(({ more }) => more)).toBe(true);
      keys = rows as typeof keys;
      const { rows: states } = await owner.query(
        `select sum(c.blocked)::int as blocked, bool_and(coalesce(c.highest < c.pending, true)) as lowest
           from (select count(*) filter (where state = 'blocked') as blocked, max(sequence) filter (where state = 'blocked') as highest,
                        min(sequence) filter (where state = 'pending') as pending
                   from outbox.delivery where destination = $1 group by aggregate_key) c`,
        [destination],
      );
      expect(states[0].lowest).toBe(true);
      expect(states[0].blocked - blocked).toBeLessThanOrEqual(2_000);
      expect(states[0].blocked).toBeGreaterThan(blocked);
      blocked = states[0].blocked;
    }
    expect(await lagOf('old')).toMatchObject({ pending: 0, parked: 4, blocked: 5_537 });
  });
});

it('events of a destination that the catalogue has and the settings lack wait, unmarked', async () => {
  await installCatalogue(owner, types, [QUEUE, OLD]);
  await append(writer, thing('a'));
  const log = recordingLog();
  await drain(database, recordingPublisher(), { log });
  expect(await lagOf('old')).toMatchObject({ pending: 1, parked: 0 });
  expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(1);
});

describe('a relay that is at work while the catalogue changes', () => {
  /** Runs one for as long as the test needs, and lets a third of its lease pass for it. */
  async function beside(
    publishers: Readonly<Record<string, Publisher>>,
    test: (passThird: () => void, log: ReturnType<typeof recordingLog>) => Promise<void>,
  ): Promise<void> {
    const [clock, log, stop] = [leaseClock(), recordingLog(), new AbortController()];
    const running = runRelay(
      relayOptions(database, publishers, { mode: 'continuous', clock, log, signal: stop.signal }),
    );
    try {
      await test(() => clock.freeze(11_000), log);
    } finally {
      stop.abort();
    }
    expect((await running).ended).toBe('stopped');
    expect((await owner.query('select from outbox.partition where lease_owner is not null')).rowCount).toBe(0);
  }

  it('sends to a destination that is installed after it started, also where there was none before', async () => {
    const [queue, old] = [recordingPublisher(), recordingPublisher()];
    await beside({ queue, old }, async (passThird, log) => {
      await until('both are missing', () => log.lines.length === 2);
      expect(log.lines.map(({ level, fields }) => [level, fields['destination']])).toEqual([
        ['warn', 'queue'],
        ['warn', 'old'],
      ]);
      await installCatalogue(owner, types, [QUEUE]);
      passThird();
      await append(writer, thing('a'));
      await until('the first is there', () => queue.accepted.length === 1);
      await installCatalogue(owner, types, [QUEUE, OLD]);
      passThird();
      await append(writer, thing('a'));
      await until('both are there', () => queue.accepted.length + old.accepted.length === 3);
    });
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2']);
    expect(places(old.accepted)).toEqual(['a#2']);
  });

  it('parks what waits for a destination that is retired after it started', async () => {
    await installCatalogue(owner, types, [QUEUE, OLD]);
    await append(writer, thing('a'));
    const queue = recordingPublisher();
    await beside({ queue }, async (passThird) => {
      await until('the other destination has it', () => queue.accepted.length === 1);
      await installCatalogue(owner, types, [QUEUE]);
      passThird();
      await until('parked', async () => (await lagOf('old'))?.parked === 1);
    });
  });
});

describe('an event that is gone from its table although something waits to be sent', () => {
  beforeEach(async () => {
    await installCatalogue(owner, types);
    await append(writer, thing('a'), thing('a'), thing('a'), thing('b'));
    await owner.query(`delete from outbox.event where aggregate_id = 'a' and sequence = 2`);
  });

  it('is parked with the reason, the later ones of its aggregate wait, the others go', async () => {
    const queue = recordingPublisher();
    await drain(database, queue);
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'b#1']);
    expect(await lagOf('queue')).toMatchObject({ pending: 0, parked: 1, blocked: 1 });
  });

  it('is listed, and a skip accepts the gap, because nothing can take its place', async () => {
    await drain(database, recordingPublisher());
    const [lost] = (await listParked(operator)).parked;
    expect(lost).toMatchObject({ sequence: 2n, type: '', lastError: 'EventMissing: its row in outbox.event is gone' });
    await skip(operator, lost?.position ?? '', 'nobody knows what it was');
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#3']);
  });
});

it('an event that is gone from its table is parked at a destination without order, too, and keeps nothing back', async () => {
  await installCatalogue(owner, types, [BUS]);
  await append(writer, thing('a'), thing('a'), thing('a'));
  await owner.query(`delete from outbox.event where aggregate_id = 'a' and sequence = 2`);
  const bus = recordingPublisher();
  await runRelay(relayOptions(database, { bus }));
  expect(places(bus.accepted).toSorted()).toEqual(['a#1', 'a#3']);
  expect(await lagOf('bus')).toMatchObject({ pending: 0, parked: 1, blocked: 0 });
});

describe('a refused event at a destination without order', () => {
  const poison = recordingPublisher(({ type, body }) =>
    type !== 'outbox.skipped' && JSON.parse(body).data.poison === true ? refused('MalformedDetail') : ACCEPTED,
  );

  it('is set aside with a tombstone where its type says skip, parked where it says block; others of its aggregate go', async () => {
    await installCatalogue(owner, types, [BUS]);
    await append(
      writer,
      thing('a', { poison: true }, { type: 'thing.minor' }),
      thing('a', { poison: true }),
      thing('a', {}, { type: 'thing.minor' }),
    );
    const run = () => runRelay(relayOptions(database, { bus: poison }));
    await run();
    await run();
    expect(await statesOf(owner)).toEqual({
      'a#1': 'set_aside',
      'a#1†': 'published',
      'a#2': 'parked',
      'a#3': 'published',
    });
  });
});
