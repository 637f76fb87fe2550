import { beforeAll, describe, expect, it } from 'vitest';
import type { Mode } from '../../../shared/events/index.ts';
import {
  endReplay,
  handlerSteps,
  listHeld,
  releaseHeld,
  resetConsumer,
  retryHeld,
} from '../../../shared/inbox/index.ts';
import { type CounterConsumerOptions, effectsOf } from '../../support/counter-consumer.ts';
import { testDatabase } from '../../support/database.ts';
import { recordingLog } from '../../support/recorders.ts';
import { DAY, uuidAt } from '../../support/retention.ts';
import { drainOf, invoke } from '../../support/sqs-batch.ts';
import { daysAgo, eventOf, KEPT_DAYS, windowsOf } from '../../support/windows.ts';

const MODES = ['any', 'latest', 'strict'] as const satisfies readonly Mode[];

const { pool, owner, operator, prepare, newName, processOf, prune, dedupeRows, held } = windowsOf(await testDatabase());
beforeAll(prepare);

/** Applies an event of 15 days with a window of 20, and has its dedupe row removed under a window of 10. */
async function goneEvent(more: Partial<CounterConsumerOptions> = {}) {
  const name = newName();
  const before = processOf(name, 20, more);
  const event = eventOf(15);
  await invoke(before, [event.message()]);
  await invoke(processOf(name, 10, more), []);
  await prune();
  expect(await dedupeRows(name)).toEqual([]);
  return { name, before, ...event };
}

describe('dedupe rows', () => {
  it.each(MODES)(
    'of mode %s stay as long as their consumer applies events so old, whatever the janitor was told',
    async (mode) => {
      const name = newName();
      const handler = processOf(name, 60, { mode });
      const { message } = eventOf(45);
      expect(await invoke(handler, [message()])).toEqual([]);
      await prune();
      expect(await invoke(handler, [message()])).toEqual([]);
      expect(await effectsOf(pool, name)).toHaveLength(1);
      expect(await held(name)).toEqual([]);
    },
  );

  it('outlive the window by a quarter of an hour, and go then', async () => {
    const name = newName();
    await invoke(processOf(name, 20), []);
    const minutesOver = (minutes: number): string => daysAgo(20 + minutes / 1440);
    const ids = [uuidAt(Date.now() - 30 * DAY * 1000, 1), uuidAt(Date.now() - 30 * DAY * 1000, 2)] as const;
    for (const [n, minutes] of [10, 20].entries()) {
      await owner.query('insert into inbox.processed_event values ($1, $2, $3)', [name, ids[n], minutesOver(minutes)]);
    }
    await prune();
    expect(await dedupeRows(name)).toEqual([ids[0]]);
  });

  it('of a consumer whose code writes no window stay for the 35 days that it had', async () => {
    const name = newName();
    await pool.query(`insert into inbox.consumer (name, mode, starting_point) values ($1, 'any', 'first-seen')`, [
      name,
    ]);
    const ids = [uuidAt(Date.now() - 40 * DAY * 1000, 1), uuidAt(Date.now() - 40 * DAY * 1000, 2)] as const;
    for (const [n, days] of [34, 36].entries()) {
      await owner.query('insert into inbox.processed_event values ($1, $2, $3)', [name, ids[n], daysAgo(days)]);
    }
    await prune();
    expect(await dedupeRows(name)).toEqual([ids[0]]);
  });

  it('that stay longer than the janitor was told are named in its log', async () => {
    const [long, short] = [newName(), newName()];
    await invoke(processOf(long, 60), []);
    await invoke(processOf(short, KEPT_DAYS), []);
    const log = recordingLog();
    await prune(log);
    const told = log.lines.filter(({ fields }) => [long, short].includes(fields['consumer'] as string));
    expect(told).toMatchObject([{ level: 'warn', fields: { consumer: long, windowDays: 60, keepDays: KEPT_DAYS } }]);
  });
});

describe('an event whose dedupe row is gone', () => {
  it.each(MODES)('is held in mode %s where the window was raised since, not applied once more', async (mode) => {
    const { name, message } = await goneEvent({ mode });
    expect(await invoke(processOf(name, 60, { mode }), [message()])).toEqual([]);
    expect(await effectsOf(pool, name)).toHaveLength(1);
    expect(await held(name)).toEqual(['too-old']);
  });

  it('is held by a process that still goes by the longer window of before', async () => {
    const { name, before, message } = await goneEvent();
    expect(await invoke(before, [message()])).toEqual([]);
    expect(await effectsOf(pool, name)).toHaveLength(1);
    expect(await held(name)).toEqual(['too-old']);
  });

  it('stays too old when older ones go by a longer window later', async () => {
    const { name, message } = await goneEvent();
    const raised = processOf(name, 60);
    await invoke(raised, []);
    await owner.query('insert into inbox.processed_event values ($1, gen_random_uuid(), $2)', [name, daysAgo(65)]);
    await prune();
    expect(await dedupeRows(name)).toEqual([]);
    expect(await invoke(raised, [message()])).toEqual([]);
    expect(await held(name)).toEqual(['too-old']);
  });

  it('has no other system called for it', async () => {
    let calls = 0;
    const handlers = {
      'counter.added': handlerSteps({
        before: async () => void (calls += 1),
        handle: async () => {},
      }),
    };
    const { name, message } = await goneEvent({ handlers });
    expect(await invoke(processOf(name, 60, { handlers }), [message()])).toEqual([]);
    expect(calls).toBe(1);
    expect(await held(name)).toEqual(['too-old']);
  });

  it('is held as too old where it cannot be read: a deployment that can would apply it', async () => {
    const { name, id, message } = await goneEvent();
    const handler = processOf(name, 60);
    expect(await invoke(handler, [message({ version: 2 })])).toEqual([]);
    expect((await listHeld(operator, { consumer: name })).held).toMatchObject([
      { eventId: id, reason: 'too-old', lastError: expect.stringContaining('EVENT_VERSION_UNKNOWN') as string },
    ]);
    await owner.query(
      `update inbox.held_event set body = replace(body, 'counter.added/2', 'counter.added/1') where consumer = $1`,
      [name],
    );
    await drainOf(processOf(name, 60));
    await expect(retryHeld(operator, name, id, 'deployed')).rejects.toMatchObject({ code: 'NOT_IN_STATE' });
    expect(await effectsOf(pool, name)).toHaveLength(1);
    await owner.query('delete from effect where consumer = $1', [name]);
    await releaseHeld(operator, name, id, 'it was never applied');
    await drainOf(handler);
    expect(await effectsOf(pool, name)).toHaveLength(1);
  });

  it('is told from one that was held when it was young, and stays as it is', async () => {
    const name = newName();
    const handler = processOf(name, 20);
    const young = eventOf(15);
    await invoke(handler, [young.message({ version: 2 }), eventOf(16, { counter: 'b' }).message()]);
    await invoke(processOf(name, 10), []);
    await prune();
    const { rows } = await pool.query(
      `select before > now() - interval '11 days' as so from inbox.pruned where consumer = $1`,
      [name],
    );
    expect(rows).toEqual([{ so: true }]);
    await retryHeld(operator, name, young.id, 'deployed');
    await drainOf(handler);
    expect(await held(name)).toEqual(['unknown-version']);
  });
});

describe('an event that is young enough', () => {
  it('is applied where nothing that could be its dedupe row was removed', async () => {
    const name = newName();
    await invoke(processOf(name, 10), [eventOf(5).message()]);
    await prune();
    const { message } = eventOf(45, { counter: 'b' });
    expect(await invoke(processOf(name, 60), [message()])).toEqual([]);
    expect(await effectsOf(pool, name)).toHaveLength(2);
  });

  it('is applied of a replay, which has no window, once, and as long as the run lasts', async () => {
    const name = newName();
    const handler = processOf(name, 10);
    const { message } = eventOf(9.9);
    await invoke(handler, [message()]);
    await owner.query(
      `update inbox.processed_event set event_time = event_time - interval '3 days' where consumer = $1`,
      [name],
    );
    await prune();
    expect(await dedupeRows(name)).toEqual([]);
    const old = eventOf(300, { counter: 'b' });
    await resetConsumer(operator, name, {}, 7, 'it was wrong');
    await owner.query('delete from effect where consumer = $1', [name]);
    for (let n = 0; n < 3; n += 1) {
      expect(await invoke(handler, [message({ replay: 7 }), old.message({ replay: 7 })])).toEqual([]);
      await prune();
    }
    expect(await effectsOf(pool, name)).toHaveLength(2);
    await endReplay(operator, name, 'all is sent');
    await prune();
    expect(await dedupeRows(name)).not.toContain(old.id);
    expect(await invoke(handler, [old.message({ replay: 7 }), old.message()])).toEqual([]);
    expect(await effectsOf(pool, name)).toHaveLength(2);
    expect(await held(name)).toEqual(['too-old']);
  });
});

describe('the end of a replay', () => {
  it('has no live event applied by itself that was too old when it came', async () => {
    const name = newName();
    const handler = processOf(name, 20);
    const removed = eventOf(15, { counter: 'a' });
    await invoke(handler, [removed.message()]);
    await invoke(processOf(name, 10), []);
    await prune();
    const raised = processOf(name, 60);
    await invoke(raised, []);
    await resetConsumer(operator, name, {}, 7, 'it was wrong');
    const [old, young] = [eventOf(61, { counter: 'b' }), eventOf(5, { counter: 'c' })];
    expect(await invoke(raised, [removed.message(), old.message(), young.message()])).toEqual([]);
    expect(await held(name)).toEqual(['replay', 'replay', 'replay']);
    expect(await endReplay(operator, name, 'all is sent')).toBe(1);
    await drainOf(raised);
    expect(await held(name)).toEqual(['too-old', 'too-old']);
    expect((await effectsOf(pool, name)).map(({ counter }) => counter)).toEqual(['a', 'c']);
  });

  it('holds what is older than the window also where nothing was ever removed', async () => {
    const name = newName();
    const handler = processOf(name, 20);
    await invoke(handler, []);
    await resetConsumer(operator, name, {}, 7, 'it was wrong');
    await invoke(handler, [eventOf(21).message(), eventOf(19, { counter: 'b' }).message()]);
    expect(await endReplay(operator, name, 'all is sent')).toBe(1);
    await drainOf(handler);
    expect(await held(name)).toEqual(['too-old']);
  });

  it('releases what was young when it came, and was held until others so old were removed', async () => {
    const name = newName();
    const handler = processOf(name, 10, { mode: 'strict' });
    await invoke(handler, [eventOf(7, { sequence: 2 }).message(), eventOf(7, { counter: 'b' }).message()]);
    await owner.query(
      `update inbox.processed_event set event_time = event_time - interval '5 days' where consumer = $1`,
      [name],
    );
    await owner.query(
      `update inbox.held_event set event_time = event_time - interval '5 days', held_at = held_at - interval '5 days' where consumer = $1`,
      [name],
    );
    await prune();
    expect(await dedupeRows(name)).toEqual([]);
    await resetConsumer(operator, name, {}, 7, 'it was wrong');
    expect(await endReplay(operator, name, 'all is sent')).toBe(1);
    expect(await held(name)).toEqual(['blocked']);
  });

  it('leaves what of the run could not be read to be tried again, however old it is', async () => {
    const { name, id, message } = await goneEvent();
    const handler = processOf(name, 10);
    await resetConsumer(operator, name, {}, 7, 'it was wrong');
    expect(await invoke(handler, [message({ version: 2, replay: 7 })])).toEqual([]);
    expect(await held(name)).toEqual(['unknown-version']);
    await endReplay(operator, name, 'all is sent');
    await retryHeld(operator, name, id, 'deployed');
  });
});
