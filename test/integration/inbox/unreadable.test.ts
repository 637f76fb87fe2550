import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  acceptGap,
  listHeld,
  type Mode,
  releaseHeld,
  resetConsumer,
  endReplay,
  retryHeld,
  skipHeld,
} from '../../../shared/inbox/index.ts';
import { counterConsumer, createEffects, effectHandler, effectsOf, heldOf } from '../../support/counter-consumer.ts';
import { counterEnvelope, type CounterEvent } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { drainOf, fifoRecord, invoke } from '../../support/sqs-batch.ts';
import { versionedConsumer } from '../../support/versioned-consumer.ts';

const database = await testDatabase();
const pool = database.pool('sealed_ledger');
const operator = database.pool('sealed_operator');
beforeAll(() => createEffects(database));

const OLD = '2020-01-01T00:00:00Z';
const UNKNOWN = { version: 9 };
const WHY = 'INC-7';

const message = (sequence: number, rest: Partial<CounterEvent> = {}) =>
  fifoRecord('a', counterEnvelope({ counter: 'a', sequence, ...rest }));
const applied = async (name: string) => (await effectsOf(pool, name)).map(({ sequence }) => Number(sequence));
const held = async (name: string) => (await heldOf(pool, name)).map(({ sequence, reason }) => `${sequence} ${reason}`);
const lowestHeld = async (name: string) => {
  const { rows } = await pool.query(
    'select event_id from inbox.held_event where consumer = $1 order by sequence limit 1',
    [name],
  );
  return rows[0]?.event_id as string;
};
const wantedOf = async (name: string) =>
  (await listHeld(operator, { consumer: name })).held.map(({ wanted }) => wanted);

describe.each(['any', 'latest', 'strict'] as const satisfies readonly Mode[])(
  'what a consumer of mode %s can not read',
  (mode) => {
    const of = (what: string) => counterConsumer({ name: `unreadable-${what}-${mode}`, pool, mode });

    it('is acknowledged where it belongs to a replay that it takes no part in', async () => {
      const { handler, metrics, options } = of('replayed');
      expect(await invoke(handler, [message(1), message(2)])).toEqual([]);
      expect(await invoke(handler, [message(1, { ...UNKNOWN, replay: 7 }), message(3)])).toEqual([]);
      expect(await held(options.name)).toEqual([]);
      expect(await applied(options.name)).toEqual([1, 2, 3]);
      expect(metrics.sum('Ignored')).toBe(1);
      expect(metrics.sum('Held')).toBe(0);
    });

    it('is held where it accepts the replay, and stays held when the replay has ended', async () => {
      const { handler, options } = of('accepted');
      const one = { id: randomUUID(), replay: 7 };
      expect(await invoke(handler, [message(1, { id: one.id })])).toEqual([]);
      await resetConsumer(operator, options.name, {}, 7, WHY);
      expect(await invoke(handler, [message(1, { ...one, ...UNKNOWN })])).toEqual([]);
      expect(await held(options.name)).toEqual(['1 unknown-version']);
      await endReplay(operator, options.name, WHY);
      await retryHeld(operator, options.name, one.id, WHY);
      await drainOf(handler);
      expect(await invoke(handler, [message(1, { ...one, ...UNKNOWN })])).toEqual([]);
      expect(await held(options.name)).toEqual(['1 unknown-version']);
      expect(await wantedOf(options.name)).toEqual([null]);
    });
  },
);

describe('a strict consumer that lets others pass what it can not read', () => {
  const of = (name: string, handle = effectHandler(name)) =>
    counterConsumer({ name, pool, handlers: { 'counter.added': { handle, whenFailing: 'skip' } } });

  it('passes one that came early when its turn has come', async () => {
    const name = 'skips-early';
    const { handler } = of(name);
    expect(await invoke(handler, [message(1), message(3, UNKNOWN), message(4, UNKNOWN)])).toEqual([]);
    expect(await invoke(handler, [message(2)])).toEqual([]);
    expect(await invoke(handler, [message(5)])).toEqual([]);
    expect(await invoke(handler, [message(6)])).toEqual([]);
    expect(await applied(name)).toEqual([1, 2, 5, 6]);
    expect(await held(name)).toEqual(['3 unknown-version', '4 unknown-version']);
  });

  it('passes one that came early where others wait behind it already', async () => {
    const name = 'skips-waiting';
    const { handler } = of(name);
    expect(await invoke(handler, [message(1), message(3, { time: OLD }), message(4)])).toEqual([]);
    expect(await held(name)).toEqual(['3 too-old', '4 gap']);
    expect(await invoke(handler, [message(2)])).toEqual([]);
    expect(await applied(name)).toEqual([1, 2, 4]);
    expect(await held(name)).toEqual(['3 too-old']);
  });

  it('does not pass one that fails when it is drained before its attempts are over', async () => {
    const name = 'skips-failing';
    const { handler } = of(name, async (event, context) => {
      if (event.sequence === 3n) throw new TypeError('canary');
      await effectHandler(name)(event, context);
    });
    expect(await invoke(handler, [message(1), message(3), message(4)])).toEqual([]);
    expect(await invoke(handler, [message(2)])).toEqual([]);
    expect(await applied(name)).toEqual([1, 2]);
    expect(await held(name)).toEqual(['3 failing', '4 gap']);
  });
});

describe('an event of a version that becomes known', () => {
  const becomesKnown = async (mode: Mode, name: string, after: readonly number[]) => {
    const before = versionedConsumer({ name, pool, newest: 1, mode });
    expect(await invoke(before.handler, [message(1), message(2, { version: 2 })])).toEqual([]);
    for (const sequence of after) expect(await invoke(before.handler, [message(sequence)])).toEqual([]);
    const today = versionedConsumer({ name, pool, newest: 2, mode });
    await drainOf(today.handler);
    expect(await held(name)).toEqual([]);
    return today.seen;
  };

  it('is applied in mode any', async () => {
    expect(await becomesKnown('any', 'known-any', [3])).toEqual([2]);
  });

  it('is applied in mode latest, or dropped where a newer one was applied', async () => {
    expect(await becomesKnown('latest', 'known-latest', [])).toEqual([2]);
    expect(await becomesKnown('latest', 'known-latest-newer', [3])).toEqual([]);
  });

  it.each([
    ['came late', 'block'],
    ['was passed over', 'skip'],
  ] as const)('is held as late, and not applied by itself, where it %s', async (_what, whenFailing) => {
    const name = `known-late-${whenFailing}`;
    const before = versionedConsumer({ name, pool, newest: 1, startingPoint: 'first-seen', whenFailing });
    const unknown = message(2, { version: 2 });
    const batch = whenFailing === 'block' ? [message(3), unknown] : [message(1), unknown, message(3)];
    expect(await invoke(before.handler, batch)).toEqual([]);
    const today = versionedConsumer({ name, pool, newest: 2, startingPoint: 'first-seen', whenFailing });
    await drainOf(today.handler);
    expect(today.seen).toEqual([]);
    expect(await held(name)).toEqual(['2 late']);
    await releaseHeld(operator, name, await lowestHeld(name), WHY);
    await drainOf(today.handler);
    expect(today.seen).toEqual([2]);
    expect(await held(name)).toEqual([]);
  });
});

describe('what an operator has decided', () => {
  it('about an event of an unknown version that others have passed, to try it again, has it held as late; only a release applies it', async () => {
    const name = 'retry-late';
    const before = versionedConsumer({ name, pool, newest: 1, whenFailing: 'skip' });
    expect(await invoke(before.handler, [message(1), message(2, { version: 2 }), message(3)])).toEqual([]);
    const eventId = await lowestHeld(name);
    await retryHeld(operator, name, eventId, WHY);
    const today = versionedConsumer({ name, pool, newest: 2, whenFailing: 'skip' });
    await drainOf(today.handler);
    expect([today.seen, await held(name), await wantedOf(name)]).toEqual([[], ['2 late'], [null]]);
    await releaseHeld(operator, name, eventId, WHY);
    await drainOf(today.handler);
    expect([today.seen, await held(name)]).toEqual([[2], []]);
  });

  it('stands when the message of an event that can not be read comes again: a skip', async () => {
    const { handler, options } = counterConsumer({ name: 'skip-stands', pool });
    const unreadable = message(3, UNKNOWN);
    expect(await invoke(handler, [message(1), unreadable, message(4)])).toEqual([]);
    const eventId = await lowestHeld(options.name);
    expect(await skipHeld(operator, options.name, eventId, WHY)).toBe(false);
    expect(await invoke(handler, [unreadable])).toEqual([]);
    expect(await invoke(handler, [message(2)])).toEqual([]);
    expect(await applied(options.name)).toEqual([1, 2, 4]);
    expect(await held(options.name)).toEqual([]);
  });

  it('stands when a process that can not read the event gets it again: a release', async () => {
    const name = 'release-stands';
    const today = versionedConsumer({ name, pool, newest: 2 });
    const old = message(2, { version: 2, time: OLD });
    expect(await invoke(today.handler, [message(1), old])).toEqual([]);
    const eventId = await lowestHeld(name);
    // The one before has its way first.
    await database
      .pool('sealed_migrator')
      .query(`update inbox.stream_position set sequence = 0 where consumer = $1`, [name]);
    await releaseHeld(operator, name, eventId, WHY);
    expect(await invoke(versionedConsumer({ name, pool, newest: 1 }).handler, [old])).toEqual([]);
    expect(await wantedOf(name)).toEqual(['release']);
    expect(await held(name)).toEqual(['2 too-old']);
  });

  it('about a gap is done where the lowest that waits behind it can not be read', async () => {
    const { handler, options } = counterConsumer({ name: 'gap-before-unreadable', pool });
    expect(await invoke(handler, [message(1), message(3, UNKNOWN), message(4)])).toEqual([]);
    const aggregate = { consumer: options.name, aggregateType: 'counter', aggregateId: 'a' };
    expect(await acceptGap(operator, aggregate, WHY)).toBe(2n);
    await expect(acceptGap(operator, aggregate, WHY)).rejects.toMatchObject({ code: 'NOT_IN_STATE' });
    const eventId = await lowestHeld(options.name);
    expect(await skipHeld(operator, options.name, eventId, WHY)).toBe(true);
    await drainOf(handler);
    expect(await applied(options.name)).toEqual([1, 4]);
  });

  it('about a gap is refused where the consumer keeps no order that a gap could break, and during a replay', async () => {
    const latest = counterConsumer({ name: 'no-gap-latest', pool, mode: 'latest' });
    expect(await invoke(latest.handler, [message(1), message(3, UNKNOWN)])).toEqual([]);
    const strict = counterConsumer({ name: 'no-gap-replay', pool });
    expect(await invoke(strict.handler, [message(1)])).toEqual([]);
    await resetConsumer(operator, 'no-gap-replay', {}, 7, WHY);
    expect(await invoke(strict.handler, [message(5)])).toEqual([]);
    for (const { options } of [latest, strict]) {
      const aggregate = { consumer: options.name, aggregateType: 'counter', aggregateId: 'a' };
      await expect(acceptGap(operator, aggregate, WHY)).rejects.toMatchObject({ code: 'NOT_IN_STATE' });
    }
  });
});
