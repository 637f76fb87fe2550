import { beforeEach, describe, expect, it, vi } from 'vitest';
import { transaction } from '../../shared/database/index.ts';
import { parseEnvelope } from '../../shared/events/index.ts';
import {
  cancelReplay,
  countReplay,
  listParked,
  listReplays,
  pauseReplay,
  readLag,
  redrive,
  resumeReplay,
  returnArchived,
  runRelay,
  skip,
  startReplay,
} from '../../shared/outbox/index.ts';
import type { ArchivedEvent } from '../../shared/archive/index.ts';
import { testDatabase } from '../support/database.ts';
import { until } from '../support/lease-clock.ts';
import { recordingLog } from '../support/recorders.ts';
import { letAge, pruneOutbox, remaining } from '../support/retention.ts';
import {
  ACCEPTED,
  append,
  drain,
  installCatalogue,
  orderBreaks,
  places,
  recordingPublisher,
  refused,
  relayOptions,
  thing,
} from '../support/outbox.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const operator = database.pool('sealed_operator');
const replayer = database.pool('sealed_replayer');
const monitor = database.pool('sealed_monitor');

const EVERYTHING = { aggregateType: 'thing' };
const FAST = 100_000;

beforeEach(async () => {
  await owner.query(
    'truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay, outbox.audit, outbox.replay restart identity',
  );
  await owner.query('update outbox.partition set lease_owner = null, lease_expires_at = null');
  await installCatalogue(owner, [
    { type: 'thing.happened' },
    { type: 'thing.minor', when_parked: 'skip' },
    { type: 'thing.elsewhere', destinations: [] },
  ]);
  await owner.query('truncate outbox.audit');
});

/** Appends `count` events to each aggregate and publishes them. */
async function published(count: number, ...aggregates: string[]): Promise<void> {
  for (let n = 0; n < count; n += 1) await append(writer, ...aggregates.map((id) => thing(id, { n })));
  await drain(database, recordingPublisher());
}

const start = (more: Partial<Parameters<typeof startReplay>[1]> = {}): Promise<number> =>
  startReplay(operator, { destination: 'queue', scope: EVERYTHING, perSecond: FAST, ...more }, 'INC-1');

const stateOf = async (number: number) => (await listReplays(operator, { number }))[0]!;

describe('a replay', () => {
  it('sends again what was sent, per aggregate in order, with its number in the envelope', async () => {
    await published(3, 'a', 'b');
    const number = await start();
    const queue = recordingPublisher();
    expect(await drain(database, queue)).toMatchObject({ published: 6, parked: 0 });
    expect(places(queue.accepted).filter((it) => it.startsWith('a'))).toEqual(['a#1', 'a#2', 'a#3']);
    expect(places(queue.accepted).filter((it) => it.startsWith('b'))).toEqual(['b#1', 'b#2', 'b#3']);
    for (const { body } of queue.accepted) {
      expect(parseEnvelope(body)).toMatchObject({ ok: true, event: { replay: number } });
    }
    expect(await stateOf(number)).toMatchObject({ state: 'done', planned: 6, sent: 6, waiting: 0, parked: 0 });
    expect((await stateOf(number)).finishedAt).not.toBeNull();
  });

  it('case 18: is not swallowed by the five minutes after the first send, and keeps the event ids', async () => {
    const live = recordingPublisher();
    await append(writer, thing('a'));
    await drain(database, live);
    const ids = new Set([live.accepted[0]!.deduplicationId]);
    for (let n = 0; n < 2; n += 1) {
      await start();
      const queue = recordingPublisher();
      await drain(database, queue);
      expect(queue.accepted).toHaveLength(1);
      expect(queue.accepted[0]!.eventId).toBe(live.accepted[0]!.eventId);
      expect(queue.accepted[0]!.groupId).toBe(live.accepted[0]!.groupId);
      ids.add(queue.accepted[0]!.deduplicationId);
    }
    expect(ids.size).toBe(3);
  });

  it('sends by sequence where writers chose ids that do not follow it', async () => {
    const id = (n: number): string => `00000000-0000-7000-8000-00000000000${n}`;
    for (const n of [9, 5, 7, 1]) await append(writer, thing('a', {}, { id: id(n) }));
    await drain(database, recordingPublisher());
    await start();
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2', 'a#3', 'a#4']);
  });

  it('sends more of one aggregate than a look reads, and more aggregates than a page has', async () => {
    await append(writer, ...Array.from({ length: 70 }, () => thing('long')));
    await append(writer, ...Array.from({ length: 1_300 }, (_, n) => thing(`n-${n}`)));
    await drain(database, recordingPublisher());
    const number = await start();
    const queue = recordingPublisher();
    const log = recordingLog();
    expect(await drain(database, queue, { log })).toMatchObject({ published: 1_370 });
    // In one go: a step that is refused something ends the relay's connection, and the next one would go on all the same.
    expect(log.lines.filter(({ level }) => level === 'warn' || level === 'error')).toEqual([]);
    expect(orderBreaks(queue.accepted)).toBe(0);
    expect(new Set(queue.accepted.map(({ eventId }) => eventId)).size).toBe(1_370);
    expect(await stateOf(number)).toMatchObject({ state: 'done', planned: 1_370 });
  });

  it('leaves live deliveries as they are: no lag, and no place in their chains', async () => {
    await published(2, 'a');
    await start();
    await drain(
      database,
      recordingPublisher(() => refused('InternalFailure')),
    );
    const { destinations } = await readLag(monitor);
    expect(destinations).toMatchObject([{ pending: 0, oldestPendingAgeSeconds: 0, parked: 0 }]);
    await append(writer, thing('a'));
    const queue = recordingPublisher();
    await drain(database, queue);
    const live = queue.accepted.filter(({ body }) => !body.includes('"replay"'));
    expect(places(live)).toEqual(['a#3']);
    expect(places(queue.accepted.filter((it) => !live.includes(it)))).toEqual(['a#1', 'a#2']);
  });

  it('leaves out what is parked and what is behind it, and what was written since: they come by themselves', async () => {
    await published(1, 'a', 'b');
    await append(writer, thing('a'), thing('a'));
    await owner.query(`update outbox.delivery set state = 'parked' where state = 'pending' and sequence = 2`);
    await owner.query(`update outbox.delivery set state = 'published' where state = 'pending' and sequence = 3`);
    await start();
    await append(writer, thing('b'));
    await owner.query(`update outbox.delivery set due_at = 'infinity' where state = 'pending'`);
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted).toSorted()).toEqual(['a#1', 'b#1']);
  });

  it('waits for what was under way when it began: its consumer may have had it already, and forgotten it since', async () => {
    await published(1, 'a', 'b');
    await append(writer, thing('a'));
    // The queue has it, but the relay was killed before it could write that down.
    await owner.query(`update outbox.delivery set due_at = 'infinity' where state = 'pending'`);
    const number = await start();
    const plan = async (): Promise<boolean> =>
      (await database.pool('sealed_relay').query('select outbox.plan_replay($1) as planned', [number])).rows[0].planned;
    expect([await plan(), await plan()]).toEqual([false, false]);
    expect(await stateOf(number)).toMatchObject({ planned: 0 });
    await owner.query(`update outbox.delivery set state = 'published' where state = 'pending'`);
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted).toSorted()).toEqual(['a#1', 'a#2', 'b#1']);
  });

  it('from the archive waits for what was under way when all was back: the same may have happened to it', async () => {
    const number = await start({ fromArchive: true });
    await append(writer, thing('a'));
    await owner.query(`update outbox.delivery set due_at = 'infinity' where state = 'pending'`);
    await returnArchived(replayer, number, []);
    const plan = async (): Promise<boolean> =>
      (await database.pool('sealed_relay').query('select outbox.plan_replay($1) as planned', [number])).rows[0].planned;
    expect([await plan(), await plan()]).toEqual([false, false]);
    await owner.query(`update outbox.delivery set state = 'published' where state = 'pending'`);
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1']);
  });

  it.each([
    [{ aggregateType: 'thing', aggregateId: 'a' }, ['a#1', 'a#2']],
    [{ types: ['thing.minor'] }, ['b#2']],
    [{ from: '2030-01-02T00:00:00Z', to: '2030-01-03T00:00:00Z' }, ['a#2']],
    [{ from: '2030-01-02T00:00:00Z', types: ['thing.minor'] }, ['b#2']],
    [{ aggregateType: 'other' }, []],
  ] as const)('of %j sends those and no others, and the dry run counts them first', async (scope, expected) => {
    const at = (day: number): Record<string, unknown> => ({ occurred_at: `2030-01-0${day}T00:00:00Z` });
    await append(writer, thing('a', {}, at(1)), thing('b', {}, at(1)), thing('a', {}, at(2)));
    await append(
      writer,
      thing('b', {}, { ...at(3), type: 'thing.minor' }),
      thing('a', {}, { type: 'thing.elsewhere' }),
    );
    await drain(database, recordingPublisher());
    expect(await countReplay(operator, 'queue', scope)).toMatchObject({ events: expected.length });
    const number = await start({ scope });
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted).toSorted()).toEqual(expected);
    expect(await stateOf(number)).toMatchObject({ state: 'done', planned: expected.length });
  });

  it('of event ids sends those, however they are written', async () => {
    await published(3, 'a');
    const { rows } = await owner.query('select id from outbox.event order by sequence');
    await start({ scope: { eventIds: [rows[2].id.toUpperCase(), rows[0].id] } });
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#3']);
  });

  it('goes after an earlier one to the same destination', async () => {
    await published(1, 'a');
    const [first, second] = [await start(), await start()];
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(queue.accepted.map(({ body }) => JSON.parse(body).replay)).toEqual([first, second]);
  });

  it('keeps to its pace', async () => {
    await append(writer, ...Array.from({ length: 60 }, (_, n) => thing(`n-${n}`)));
    await drain(database, recordingPublisher());
    await start({ perSecond: 40 });
    const at: number[] = [];
    const queue = recordingPublisher(() => {
      at.push(performance.now());
      return ACCEPTED;
    });
    await drain(database, queue);
    expect(at).toHaveLength(60);
    // Half a second's worth may be saved up; the others come at 40 a second, however fast the machine is.
    expect(at.at(-1)! - at[0]!).toBeGreaterThan(900);
  });
});

describe('a plan', () => {
  it('goes on where a relay died in it, and sends nothing before it is complete', async () => {
    await published(4, 'a', 'b');
    const number = await start();
    const relay = database.pool('sealed_relay');
    expect((await relay.query('select outbox.plan_replay($1, 3) as done', [number])).rows[0].done).toBe(false);
    const some = await stateOf(number);
    expect(some).toMatchObject({ planned: 3, plannedAt: null, waiting: 3 });
    const { rows } = await relay.query(`select scan from outbox.find_replay($1, true, $2, 0, '{}', '{}', 100, 20)`, [
      number,
      Array.from({ length: 64 }, (_, n) => n),
    ]);
    expect(rows).toEqual([{ scan: { runs: false, rows: 0, position: null } }]);
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(orderBreaks(queue.accepted)).toBe(0);
    expect(queue.accepted).toHaveLength(8);
    expect(await stateOf(number)).toMatchObject({ state: 'done', planned: 8, sent: 8 });
  });

  it('is made by one relay at a time', async () => {
    await published(1, 'a');
    const number = await start();
    const [one, another] = [await database.client('sealed_relay'), await database.client('sealed_relay')];
    await one.query('begin');
    await one.query('select outbox.plan_replay($1)', [number]);
    const { rows } = await another.query('select outbox.plan_replay($1) as done', [number]);
    expect(rows[0].done).toBe(false);
    await one.query('commit');
    expect((await another.query('select outbox.plan_replay($1) as done', [number])).rows[0].done).toBe(true);
    expect(await stateOf(number)).toMatchObject({ planned: 1 });
  });
});

describe('an operator', () => {
  it('pauses, resumes and cancels; each is audited', async () => {
    await published(2, 'a', 'b');
    const number = await start();
    await pauseReplay(operator, number, 'busy');
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(queue.accepted).toEqual([]);
    await expect(pauseReplay(operator, number, 'busy')).rejects.toMatchObject({ code: 'NOT_IN_STATE' });
    await resumeReplay(operator, number, 'quiet');
    await owner.query('select outbox.plan_replay($1)', [number]);
    await owner.query('select outbox.plan_replay($1)', [number]);
    expect(await cancelReplay(operator, number, 'wrong scope')).toBe(4);
    expect(await stateOf(number)).toMatchObject({ state: 'cancelled', planned: 4, waiting: 0 });
    await drain(database, queue);
    expect(queue.accepted).toEqual([]);
    await expect(resumeReplay(operator, number, 'r')).rejects.toMatchObject({ code: 'NOT_IN_STATE' });
    const { rows } = await owner.query(
      `select act, actor, detail ->> 'reason' as reason from outbox.audit order by id`,
    );
    expect(rows).toEqual([
      { act: 'start_replay', actor: 'sealed_operator', reason: 'INC-1' },
      { act: 'pause_replay', actor: 'sealed_operator', reason: 'busy' },
      { act: 'resume_replay', actor: 'sealed_operator', reason: 'quiet' },
      { act: 'cancel_replay', actor: 'sealed_operator', reason: 'wrong scope' },
    ]);
  });

  it('cancels also what somebody else is at in this moment, and does not say before that nothing is left', async () => {
    await published(2, 'a', 'b');
    const number = await start({ paused: true });
    await resumeReplay(operator, number, 'on');
    for (let step = 0; step < 2; step += 1) await owner.query('select outbox.plan_replay($1)', [number]);
    const cancelled = await transaction(owner, async (settling) => {
      await settling.query('select from outbox.delivery where replay = $1 order by position limit 1 for update', [
        number,
      ]);
      await expect(cancelReplay(operator, number, 'wrong scope', { waitMs: 1 })).rejects.toMatchObject({
        code: 'REPLAY_NOT_CLEARED',
        message: expect.stringMatching(/3 unsent messages were removed.*1 is locked/),
      });
      const again = cancelReplay(operator, number, 'wrong scope');
      await vi.waitFor(async () => {
        const { rows } = await owner.query(`select from outbox.audit where act = 'cancel_replay'`);
        expect(rows).toHaveLength(2);
      });
      return { again };
    });
    expect(await cancelled.again).toBe(1);
    expect(await stateOf(number)).toMatchObject({ state: 'cancelled', waiting: 0, parked: 0 });
  });

  it('pauses one that is being sent: what is in flight is answered, the rest waits, and it goes on there', async () => {
    await append(writer, ...Array.from({ length: 300 }, (_, n) => thing(`n-${n}`)));
    await drain(database, recordingPublisher());
    const number = await start({ perSecond: 200 });
    const queue = recordingPublisher(async () => {
      if (queue.calls.length === 3) await pauseReplay(operator, number, 'enough').catch(() => {});
      return ACCEPTED;
    });
    await drain(database, queue);
    const before = queue.accepted.length;
    expect(before).toBeLessThan(300);
    expect(await stateOf(number)).toMatchObject({ state: 'paused', sent: before, waiting: 300 - before });
    await resumeReplay(operator, number, 'on');
    await owner.query('update outbox.replay set per_second = $1', [FAST]);
    await drain(database, queue);
    expect(new Set(queue.accepted.map(({ eventId }) => eventId)).size).toBe(300);
    expect(queue.accepted).toHaveLength(300);
  });

  it.each([
    [{}, /empty/],
    [{ aggregateId: 'a' }, /without aggregate_type/],
    [{ types: [] }, /types/],
    [{ eventIds: ['x'] }, /event_ids/],
    [{ from: 'yesterdayish' }, /times/],
  ])('is refused the scope %j', async (scope, message) => {
    await expect(start({ scope })).rejects.toMatchObject({
      code: 'OPERATION_ARGUMENT',
      message: expect.stringMatching(message),
    });
    await expect(countReplay(operator, 'queue', scope)).rejects.toMatchObject({ code: 'OPERATION_ARGUMENT' });
  });

  it('is refused a destination that is not installed, and a pace that is none', async () => {
    await expect(start({ destination: 'nowhere' })).rejects.toMatchObject({ code: 'DELIVERY_UNKNOWN' });
    await expect(start({ perSecond: 0 })).rejects.toMatchObject({ code: 'OPERATION_ARGUMENT' });
  });
});

describe('what is refused in a replay', () => {
  const poison = (place: string) => (message: { readonly body: string }) => {
    const { subject, sequence } = JSON.parse(message.body);
    return `${subject}#${sequence}` === place ? refused('InvalidMessageContents') : ACCEPTED;
  };

  it('is parked and holds back the later ones of its aggregate; a redrive lets them go, and the replay ends', async () => {
    await published(3, 'a', 'b');
    const number = await start();
    const queue = recordingPublisher(poison('a#2'));
    await drain(database, queue);
    expect(places(queue.accepted).toSorted()).toEqual(['a#1', 'b#1', 'b#2', 'b#3']);
    expect(await stateOf(number)).toMatchObject({ state: 'running', parked: 1, waiting: 1, sent: 4 });
    const { parked } = await listParked(operator);
    expect(parked).toMatchObject([{ aggregateId: 'a', sequence: 2n }]);
    await redrive(operator, parked[0]!.position, 'mended');
    const mended = recordingPublisher();
    await drain(database, mended);
    expect(places(mended.accepted)).toEqual(['a#2', 'a#3']);
    expect(mended.accepted[0]!.deduplicationId).toMatch(/-r1-1$/);
    expect(await stateOf(number)).toMatchObject({ state: 'done' });
  });

  it.each(['drain', 'continuous'] as const)(
    'counts as parked, and the next replay goes on beside it (%s)',
    async (mode) => {
      await published(3, 'a', 'b');
      const [first, second] = [await start(), await start()];
      const refusing = poison('a#1');
      const queue = recordingPublisher((message) =>
        JSON.parse(message.body).replay === first ? refusing(message) : ACCEPTED,
      );
      const stop = new AbortController();
      const relay = runRelay(relayOptions(database, { queue }, { mode, signal: stop.signal }));
      if (mode === 'continuous') {
        await until('the second is done', async () => (await stateOf(second)).state === 'done');
        stop.abort();
      }
      await relay;
      expect(await stateOf(first)).toMatchObject({ state: 'running', parked: 1, waiting: 2, sent: 3 });
      expect(await stateOf(second)).toMatchObject({ state: 'done', sent: 6 });
      expect((await readLag(monitor)).destinations).toMatchObject([{ pending: 0, parked: 1, blocked: 0, orphaned: 0 }]);
      await redrive(operator, (await listParked(operator)).parked[0]!.position, 'mended');
      const mended = recordingPublisher();
      await drain(database, mended);
      expect(places(mended.accepted)).toEqual(['a#1', 'a#2', 'a#3']);
      expect(await stateOf(first)).toMatchObject({ state: 'done' });
      expect((await readLag(monitor)).destinations).toMatchObject([{ parked: 0 }]);
    },
  );

  it('and was left by a relay of before, with those behind it pending, is passed over too', async () => {
    await published(3, 'a');
    const [first, second] = [await start(), await start()];
    const refusing = poison('a#1');
    const publisher = recordingPublisher((message) =>
      JSON.parse(message.body).replay === first ? refusing(message) : ACCEPTED,
    );
    await owner.query(`update outbox.replay set state = 'paused' where number = $1`, [second]);
    await drain(database, publisher);
    await owner.query(`update outbox.delivery set state = 'pending' where state = 'blocked'`);
    await owner.query(`update outbox.replay set state = 'running' where number = $1`, [second]);
    await drain(database, publisher);
    expect(await stateOf(first)).toMatchObject({ state: 'running', parked: 1, waiting: 2 });
    expect(await stateOf(second)).toMatchObject({ state: 'done' });
    expect((await owner.query(`select from outbox.delivery where state = 'pending'`)).rowCount).toBe(0);
  });

  it('and is out after all does not leave blocked what it held back, whoever dies in between', async () => {
    await published(3, 'a');
    const number = await start();
    await drain(database, recordingPublisher(poison('a#1')));
    // A relay that was frozen had sent it, and died before it could say what follows from that.
    await owner.query(`update outbox.delivery set state = 'published' where state = 'parked'`);
    const queue = recordingPublisher();
    await drain(database, queue);
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#2', 'a#3']);
    expect(await stateOf(number)).toMatchObject({ state: 'done' });
  });

  it('keeps what is behind it blocked, also what was let go while the relay is at work on the rest', async () => {
    await published(3, 'a', 'b');
    const number = await start();
    while (
      !(await database.pool('sealed_relay').query('select outbox.plan_replay($1) as done', [number])).rows[0].done
    );
    await owner.query(
      `update outbox.delivery d set due_at = 'infinity' from outbox.event e where e.id = d.event_id and d.replay > 0 and e.aggregate_id = 'b'`,
    );
    const stop = new AbortController();
    const queue = recordingPublisher(poison('a#1'));
    const relay = runRelay(relayOptions(database, { queue }, { mode: 'continuous', signal: stop.signal }));
    const blocked = async (): Promise<boolean> =>
      (await owner.query(`select from outbox.delivery where state = 'blocked'`)).rowCount === 2;
    await until('both are blocked', blocked);
    // As a redrive of before this version left one that was parked, too.
    for (const time of ['once', 'twice']) {
      await owner.query(`update outbox.delivery set state = 'pending' where state = 'blocked' and sequence = 2`);
      await until(`both are blocked again, ${time}`, blocked);
    }
    stop.abort();
    await relay;
    expect(queue.accepted).toEqual([]);
  });

  it('waits behind a lower one that is parked when it is redriven first, and goes with it', async () => {
    await published(3, 'a');
    const number = await start();
    await drain(database, recordingPublisher(poison('a#1')));
    // Two relays that could not see each other.
    await owner.query(`update outbox.delivery set state = 'parked' where state = 'blocked' and sequence = 2`);
    const { parked } = await listParked(operator);
    expect(await redrive(operator, parked[1]!.position, 'mended')).toMatchObject({ state: 'blocked', unblocked: 0 });
    const none = recordingPublisher();
    await drain(database, none);
    expect(none.accepted).toEqual([]);
    await redrive(operator, parked[0]!.position, 'mended');
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2', 'a#3']);
    expect(await stateOf(number)).toMatchObject({ state: 'done' });
  });

  it('is skipped by an operator with a tombstone in its place, which belongs to the replay', async () => {
    await published(2, 'a');
    await start();
    await drain(database, recordingPublisher(poison('a#1')));
    await skip(operator, (await listParked(operator)).parked[0]!.position, 'lost');
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(queue.accepted.map(({ body, type }) => [type, JSON.parse(body).replay])).toEqual([
      ['outbox.skipped', 1],
      ['thing.happened', 1],
    ]);
  });

  it('is set aside by the policy skip, and its tombstone goes', async () => {
    await append(writer, thing('a', {}, { type: 'thing.minor' }), thing('a'));
    await drain(database, recordingPublisher());
    const number = await start();
    const queue = recordingPublisher(({ type }) =>
      type === 'thing.minor' ? refused('InvalidMessageContents') : ACCEPTED,
    );
    await drain(database, queue);
    expect(queue.accepted.map(({ type }) => type)).toEqual(['outbox.skipped', 'thing.happened']);
    expect(await stateOf(number)).toMatchObject({ state: 'done' });
  });

  it('by an outage costs no attempt, and comes again', async () => {
    await published(2, 'a');
    await start();
    await drain(
      database,
      recordingPublisher(() => refused('ServiceUnavailable')),
    );
    const { rows } = await owner.query('select attempts from outbox.delivery where replay > 0');
    expect(rows).toEqual([{ attempts: 0 }, { attempts: 0 }]);
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2']);
  });
});

describe('like case 62: beside live traffic of the same aggregates, with two relays', () => {
  it('both are sent wholly, each in order', async () => {
    const ids = Array.from({ length: 20 }, (_, n) => `n-${n}`);
    await published(10, ...ids);
    const number = await start();
    const queue = recordingPublisher();
    const stop = new AbortController();
    const relays = ['one', 'two'].map((slot) =>
      runRelay(relayOptions(database, { queue }, { slot, mode: 'continuous', maxSeconds: 30, signal: stop.signal })),
    );
    for (let n = 0; n < 10; n += 1) await append(writer, ...ids.map((id) => thing(id)));
    const isLive = ({ body }: { readonly body: string }): boolean => !body.includes('"replay"');
    const states = async (): Promise<unknown> => [queue.accepted.filter(isLive).length, (await stateOf(number)).state];
    await expect.poll(states, { timeout: 20_000 }).toEqual([200, 'done']);
    stop.abort();
    await Promise.all(relays);
    const replayed = queue.accepted.filter((message) => !isLive(message));
    expect(orderBreaks(queue.accepted.filter(isLive))).toBe(0);
    expect(orderBreaks(replayed)).toBe(0);
    // What goes out live while the replay is planned may be in it, too.
    const first = places(replayed).filter((place) => Number(place.split('#')[1]) <= 10);
    expect(new Set(first).size).toBe(200);
    expect((await stateOf(number)).planned).toBe(replayed.length);
  });
});

describe('from the archive', () => {
  /** Takes the events out of the database, as the janitor would have. */
  async function archived(): Promise<Omit<ArchivedEvent, 'deliveries'>[]> {
    const { rows } = await owner.query(
      `select id, aggregate_type as "aggregateType", aggregate_id as "aggregateId", sequence, type, schema_version as "schemaVersion",
              data::text, metadata::text, to_char(occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as "occurredAt"
         from outbox.event order by id`,
    );
    await owner.query('delete from outbox.delivery; delete from outbox.event');
    return rows.map((row) => ({ ...row, sequence: BigInt(row.sequence) }));
  }

  it('brings back what is missing, as it was, and sends it with what is there', async () => {
    await append(writer, thing('a', { big: 1 }), thing('a'));
    await owner.query(`update outbox.event set data = '{"big": 9007199254740993}' where sequence = 1`);
    await drain(database, recordingPublisher());
    const before = await owner.query('select e::text from outbox.event e order by sequence');
    const events = await archived();
    await append(writer, thing('a'));
    await drain(database, recordingPublisher());

    const number = await start({ fromArchive: true });
    const early = recordingPublisher();
    await drain(database, early);
    expect(early.accepted).toEqual([]);
    expect(await returnArchived(replayer, number, events)).toBe(2);
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2', 'a#3']);
    expect(queue.accepted[0]!.body).toContain('"data":{"big": 9007199254740993}}');
    expect(await stateOf(number)).toMatchObject({ state: 'done', planned: 3 });
    const after = await owner.query('select e::text from outbox.event e where sequence < 3 order by sequence');
    expect(after.rows).toEqual(before.rows);
  });

  it('may be interrupted and given again, wholly', async () => {
    await published(3, 'a');
    const events = await archived();
    const number = await start({ fromArchive: true });
    const broken = (async function* () {
      yield* events.slice(0, 2);
      throw new Error('the archive went away');
    })();
    await expect(returnArchived(replayer, number, broken)).rejects.toThrow('the archive went away');
    await replayer.query('select outbox.return_events($1, $2)', [number, JSON.stringify([])]);
    expect(await stateOf(number)).toMatchObject({ state: 'loading' });
    await returnArchived(replayer, number, events);
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(places(queue.accepted)).toEqual(['a#1', 'a#2', 'a#3']);
  });

  it('takes nothing that was never appended, nothing out of scope, and nothing for a replay that does not wait', async () => {
    await published(1, 'a', 'b');
    const events = await archived();
    const number = await start({ fromArchive: true, scope: { aggregateType: 'thing', aggregateId: 'a' } });
    const event = events.find(({ aggregateId }) => aggregateId === 'a');
    await expect(returnArchived(replayer, number, [{ ...event!, sequence: 2n }])).rejects.toMatchObject({
      code: 'OPERATION_ARGUMENT',
    });
    expect(await returnArchived(replayer, number, events)).toBe(1);
    expect((await owner.query('select aggregate_id from outbox.event')).rows).toEqual([{ aggregate_id: 'a' }]);
    await expect(returnArchived(replayer, number, events)).rejects.toMatchObject({ code: 'NOT_IN_STATE' });
  });

  const there = async (): Promise<string[]> => (await remaining(owner)).events;

  it('brings back only what it sends: what no route takes there, and tombstones, would stay for ever', async () => {
    await published(2, 'a');
    await append(writer, thing('b', {}, { type: 'thing.elsewhere' }));
    const events = await archived();
    const tombstone = { ...events[0]!, id: '01900000-0000-7000-8000-000000000001', type: 'outbox.skipped' };
    const number = await start({ fromArchive: true });
    // Lower than its second event, something of the aggregate waits: a replay leaves that one out.
    await owner.query(
      `insert into outbox.delivery (event_id, destination, partition, aggregate_key, sequence, bytes)
       select gen_random_uuid(), number, 0, outbox.aggregate_key('thing', 'a'), 2, 600 from outbox.destination`,
    );
    expect(await returnArchived(replayer, number, [...events, tombstone])).toBe(1);
    expect(await there()).toEqual(['a#1']);
    // Given again, it stays what it is.
    await owner.query(`update outbox.replay set state = 'loading'`);
    expect(await returnArchived(replayer, number, events)).toBe(0);
    expect(await there()).toEqual(['a#1']);
  });

  it('what it has not sent when it is cancelled goes when it is old', async () => {
    await published(2, 'a', 'b');
    const events = await archived();
    const number = await start({ fromArchive: true });
    await returnArchived(replayer, number, events);
    expect(await cancelReplay(operator, number, 'wrong scope')).toBe(4);
    expect(await stateOf(number)).toMatchObject({ state: 'cancelled', waiting: 0, parked: 0 });
    const queue = recordingPublisher();
    await drain(database, queue);
    expect(queue.accepted).toEqual([]);
    const janitor = database.pool('sealed_janitor');
    await pruneOutbox(janitor);
    expect(await there()).toEqual(['a#1', 'a#2', 'b#1', 'b#2']);
    await letAge(owner, 30);
    await pruneOutbox(janitor);
    expect(await remaining(owner)).toEqual({ events: [], deliveries: [] });
  });

  it.each([
    ['another aggregate type than its type has', { aggregateType: 'person' }],
    ['a version that is not in the catalogue', { schemaVersion: 7 }],
    ['the place of another event', { id: '01900000-0000-7000-8000-000000000009' }],
  ])('refuses an event of %s', async (_, forged) => {
    await published(1, 'a');
    await owner.query(`insert into outbox.stream values ('person', 'a', 5) on conflict do nothing`);
    const [event] = await archived();
    const number = await start({ fromArchive: true, scope: { from: '2020-01-01T00:00:00Z' } });
    const refusal = { code: 'OPERATION_ARGUMENT' };
    await expect(returnArchived(replayer, number, [event!, { ...event!, ...forged }])).rejects.toMatchObject(refusal);
    expect(await there()).toEqual([]);
    await replayer.query('select outbox.return_events($1, $2)', [number, '[]']);
    // And so when the first of them came with an earlier call.
    const cut = { more: () => true };
    await returnArchived(replayer, number, [event!], cut);
    await expect(returnArchived(replayer, number, [{ ...event!, ...forged }], cut)).rejects.toMatchObject(refusal);
    expect(await there()).toEqual(['a#1']);
  });

  it('is written in slices that end by their bytes, and not only by their number', async () => {
    await published(1, 'a');
    const [event] = await archived();
    const large = { ...event!, data: JSON.stringify('x'.repeat(6_000_000)) };
    const slices: number[] = [];
    const db = {
      async query(text: string, values: readonly unknown[] = []) {
        if (text.includes('return_events')) slices.push(JSON.parse(values[1] as string).length);
        return { rows: [{ planned: 0 }], rowCount: 1 };
      },
    };
    await returnArchived(db, 1, [large, large, large, large, large, large, large]);
    expect(slices).toEqual([3, 3, 1]);
  });
});
