import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import { endReplay, handlerSteps, type Mode, resetConsumer, retryHeld, skipHeld } from '../../../shared/inbox/index.ts';
import { untilOneWaits } from '../../support/advisory-waits.ts';
import { counterConsumer, createEffects, effectsOf, heldOf, inboxOf } from '../../support/counter-consumer.ts';
import { counterEnvelope, type CounterEvent } from '../../support/counter-events.ts';
import { testDatabase } from '../../support/database.ts';
import { drainOf, fifoRecord, invoke } from '../../support/sqs-batch.ts';

const database = await testDatabase();
const pool = database.pool('sealed_ledger');
const operator = database.pool('sealed_operator');
const migrator = database.pool('sealed_migrator');

beforeAll(() => createEffects(database));

const MODES = ['any', 'latest', 'strict'] as const satisfies readonly Mode[];
const RUN = 7;
const OLD = '2020-01-01T00:00:00Z';

let made = 0;
/** A consumer with a name of its own, and what a test does with it. */
function consumer(mode: Mode, more: Partial<Parameters<typeof counterConsumer>[0]> = {}) {
  made += 1;
  const name = `replayed-${made}`;
  const built = counterConsumer({ name, pool, mode, ...more });
  const ids = new Map<string, string>();
  /** The message of an event: always the same id for the same place. */
  const message = (place: string, replay?: number, event: Partial<CounterEvent> = {}) => {
    const [counter = '', sequence = ''] = place.split('#');
    if (!ids.has(place)) ids.set(place, randomUUID());
    const body = counterEnvelope({ counter, sequence: Number(sequence), id: ids.get(place)!, ...event });
    return fifoRecord(counter, replay === undefined ? body : JSON.stringify({ ...JSON.parse(body), replay }));
  };
  const receive = async (places: readonly string[], replay?: number, event: Partial<CounterEvent> = {}) =>
    invoke(
      built.handler,
      places.map((place) => message(place, replay, event)),
    );
  return {
    ...built,
    name,
    message,
    idOf: (place: string) => ids.get(place)!,
    receive,
    drain: () => drainOf(built.handler),
    effects: async () => (await effectsOf(pool, name)).map(({ counter, sequence }) => `${counter}#${sequence}`),
    held: async () =>
      (await heldOf(pool, name)).map(({ counter, sequence, reason }) => `${counter}#${sequence} ${reason}`),
    reset: (scope: { aggregateType?: string; aggregateId?: string } = {}, replay = RUN) =>
      resetConsumer(operator, name, scope, replay, 'it was wrong'),
    end: () => endReplay(operator, name, 'all is sent'),
    /** Removes the effects, as whoever resets must. */
    wipe: () => migrator.query('delete from effect where consumer = $1', [name]),
  };
}

describe.each(MODES)('a consumer of mode %s', (mode) => {
  it('builds its effects anew from the replay that it was reset for', async () => {
    const one = consumer(mode);
    await one.receive(['a#1', 'a#2', 'b#1']);
    expect(await one.reset()).toMatchObject({ positions: mode === 'any' ? 0 : 2, held: 0, generation: 2 });
    await one.wipe();
    expect(await one.receive(['a#1', 'a#2', 'b#1'], RUN)).toEqual([]);
    expect((await one.effects()).toSorted()).toEqual(['a#1', 'a#2', 'b#1']);
    expect(await one.end()).toBe(0);
  });

  it('applies each event of the run once, however often it comes', async () => {
    const one = consumer(mode);
    await one.receive(['a#1']);
    await one.reset();
    await one.wipe();
    for (let n = 0; n < 3; n += 1) await one.receive(['a#1'], RUN);
    expect(await one.effects()).toEqual(['a#1']);
  });

  it('acknowledges without effect what belongs to another run, before, during and after its own', async () => {
    const one = consumer(mode);
    await one.receive(['a#1']);
    expect(await one.receive(['a#1', 'a#2'], RUN)).toEqual([]);
    await one.reset();
    expect(await one.receive(['a#1', 'a#2'], RUN + 1)).toEqual([]);
    await one.end();
    expect(await one.receive(['a#1', 'a#2'], RUN)).toEqual([]);
    expect(await one.effects()).toEqual(['a#1']);
    expect(await one.held()).toEqual([]);
    expect(one.metrics.sum('Ignored')).toBe(6);
  });

  it('like case 62: holds live events of the aggregates until the run ends, and applies them then, in order', async () => {
    const one = consumer(mode);
    await one.receive(['a#1', 'a#2']);
    await one.reset();
    await one.wipe();
    expect(await one.receive(['a#3'])).toEqual([]);
    await one.receive(['a#1'], RUN);
    await one.receive(['a#4']);
    expect(await one.held()).toEqual(['a#3 replay', 'a#4 replay']);
    await one.drain();
    await one.receive(['a#2'], RUN);
    expect(await one.effects()).toEqual(['a#1', 'a#2']);
    expect(await one.end()).toBe(2);
    await one.drain();
    expect(await one.effects()).toEqual(['a#1', 'a#2', 'a#3', 'a#4']);
    expect(await one.held()).toEqual([]);
    await one.receive(['a#5']);
    expect((await one.effects()).at(-1)).toBe('a#5');
  });

  it('case 62: applies replayed events that are older than its window, and goes on holding live ones that are', async () => {
    const one = consumer(mode);
    await one.receive(['a#1']);
    await one.reset({ aggregateType: 'counter', aggregateId: 'a' });
    await one.wipe();
    await one.receive(['a#1', 'a#2'], RUN, { time: OLD });
    await one.receive(['b#1'], undefined, { time: OLD });
    expect(await one.effects()).toEqual(['a#1', 'a#2']);
    expect(await one.held()).toEqual(['b#1 too-old']);
  });

  it('leaves aggregates alone that are not in the scope of its reset', async () => {
    const one = consumer(mode);
    await one.receive(['a#1', 'b#1']);
    await one.reset({ aggregateType: 'counter', aggregateId: 'a' });
    await migrator.query(`delete from effect where consumer = $1 and counter = 'a'`, [one.name]);
    await one.receive(['a#1', 'b#1'], RUN);
    await one.receive(['b#1', 'b#2']);
    expect(await one.effects()).toEqual(['b#1', 'a#1', 'b#2']);
    expect(await one.held()).toEqual([]);
  });

  it('applies a held live copy at the end where the replay did not bring it, and not where it did', async () => {
    const one = consumer(mode);
    await one.receive(['a#1', 'a#2', 'a#3']);
    await one.reset();
    await one.wipe();
    // The acknowledgement of these was lost: they come again, live.
    await one.receive(['a#2', 'a#3']);
    await one.receive(['a#1', 'a#2'], RUN);
    expect(await one.effects()).toEqual(['a#1', 'a#2']);
    expect(await one.held()).toEqual(['a#3 replay']);
    await one.end();
    await one.drain();
    expect(await one.effects()).toEqual(['a#1', 'a#2', 'a#3']);
    await one.receive(['a#1', 'a#2', 'a#3']);
    expect(await one.effects()).toEqual(['a#1', 'a#2', 'a#3']);
  });

  it('can be reset again, for another run', async () => {
    const one = consumer(mode);
    await one.receive(['a#1']);
    for (const replay of [RUN, RUN + 1]) {
      await one.reset({}, replay);
      await one.wipe();
      await one.receive(['a#1'], replay);
      await one.end();
      expect(await one.effects()).toEqual(['a#1']);
    }
    const { rows } = await migrator.query('select generation, replay_accepted from inbox.consumer where name = $1', [
      one.name,
    ]);
    expect(rows).toEqual([{ generation: 3, replay_accepted: 0 }]);
  });

  it('keeps what was done when the reset is refused', async () => {
    const one = consumer(mode);
    await one.receive(['a#1']);
    await one.reset();
    await expect(one.reset({}, RUN + 1)).rejects.toMatchObject({ code: 'NOT_IN_STATE' });
    await expect(one.reset({ aggregateId: 'a' })).rejects.toMatchObject({ code: 'OPERATION_ARGUMENT' });
    await one.end();
    await expect(one.end()).rejects.toMatchObject({ code: 'NOT_IN_STATE' });
    await expect(resetConsumer(operator, 'nobody', {}, RUN, 'r')).rejects.toMatchObject({ code: 'HELD_EVENT_UNKNOWN' });
  });

  /** One whose handler fails as long as `broken.yes`. */
  const failing = (attempts: number) => {
    const broken = { yes: false };
    const one = consumer(mode, {
      attempts,
      handlers: {
        'counter.added': async (event, { tx }) => {
          if (broken.yes) throw new Error('as the test wants it');
          await tx.query('insert into effect (consumer, counter, sequence) values ($1, $2, $3)', [
            one.name,
            event.aggregateId,
            event.sequence.toString(),
          ]);
        },
      },
    });
    return { ...one, broken };
  };

  it('like case 62: gives a replayed event back whose handler fails, though it was applied before the reset', async () => {
    const one = failing(5);
    await one.receive(['a#1']);
    await one.reset();
    await one.wipe();
    one.broken.yes = true;
    expect(await one.receive(['a#1'], RUN)).toHaveLength(1);
    one.broken.yes = false;
    expect(await one.receive(['a#1'], RUN)).toEqual([]);
    expect(await one.effects()).toEqual(['a#1']);
  });

  it('like case 62: holds a replayed event whose handler fails for good, and applies it when the handler is mended', async () => {
    const one = failing(1);
    await one.receive(['a#1']);
    await one.reset();
    await one.wipe();
    one.broken.yes = true;
    expect(await one.receive(['a#1'], RUN)).toEqual([]);
    expect(await one.held()).toEqual(['a#1 failing']);
    one.broken.yes = false;
    await retryHeld(operator, one.name, one.idOf('a#1'), 'the handler was mended');
    await one.drain();
    expect(await one.effects()).toEqual(['a#1']);
    expect(await one.held()).toEqual([]);
  });

  it('leaves out a replayed event that an operator has skipped, though it was applied before the reset', async () => {
    const one = failing(1);
    await one.receive(['a#1']);
    await one.reset();
    await one.wipe();
    one.broken.yes = true;
    await one.receive(['a#1'], RUN);
    one.broken.yes = false;
    await skipHeld(operator, one.name, one.idOf('a#1'), 'the event is wrong');
    await one.drain();
    expect(await one.receive(['a#1', 'a#2'], RUN)).toEqual([]);
    expect(await one.effects()).toEqual(['a#2']);
  });

  it('holds a replayed message that cannot be read, though its event was applied before the reset', async () => {
    const one = consumer(mode);
    await one.receive(['a#1']);
    await one.reset();
    await one.wipe();
    await one.receive(['a#1'], RUN, { version: 99 });
    expect(await one.held()).toEqual(['a#1 unknown-version']);
  });

  it('runs the `before` step of a replayed event that it applies, and of no other', async () => {
    const called: string[] = [];
    const one = consumer(mode, {
      handlers: {
        'counter.added': handlerSteps({
          before: async (event) => {
            called.push(`${event.aggregateId}#${event.sequence} ${event.replay ?? 'live'}`);
          },
          handle: async () => {},
        }),
      },
    });
    await one.receive(['a#1']);
    await one.receive(['a#1'], RUN);
    await one.reset();
    await one.receive(['a#1', 'a#2'], RUN, { time: OLD });
    await one.receive(['a#3']);
    await one.receive(['a#1'], RUN);
    expect(called).toEqual(['a#1 live', 'a#1 7', 'a#2 7']);
  });
});

describe('order in a replay', () => {
  it('strict: an event that comes before its predecessor is held, and applied behind it', async () => {
    const one = consumer('strict');
    await one.receive(['a#1', 'a#2', 'a#3']);
    await one.reset();
    await one.wipe();
    await one.receive(['a#1'], RUN);
    await one.receive(['a#3'], RUN);
    expect(await one.held()).toEqual(['a#3 gap']);
    await one.receive(['a#2'], RUN);
    expect(await one.effects()).toEqual(['a#1', 'a#2', 'a#3']);
  });

  it('strict: what was missing for good before the reset is missing in the run, too: the gap can be seen', async () => {
    const one = consumer('strict');
    await one.receive(['a#1']);
    await one.receive(['a#3']);
    expect(await one.reset()).toMatchObject({ positions: 1, held: 1 });
    await one.wipe();
    await one.receive(['a#1', 'a#3'], RUN);
    expect(await one.effects()).toEqual(['a#1']);
    expect(await one.held()).toEqual(['a#3 gap']);
  });

  it('strict: one that comes after a later one is held as late, and is not applied', async () => {
    const one = consumer('strict', { startingPoint: 'first-seen' });
    await one.receive(['a#1']);
    await one.reset();
    await one.wipe();
    await one.receive(['a#2'], RUN);
    await one.receive(['a#1'], RUN);
    expect(await one.effects()).toEqual(['a#2']);
    expect(await one.held()).toEqual(['a#1 late']);
  });

  it('latest: an older one of the run is dropped, and so is an older live one at its end', async () => {
    const one = consumer('latest');
    await one.receive(['a#1', 'a#2', 'a#3']);
    await one.reset();
    await one.wipe();
    await one.receive(['a#2']);
    await one.receive(['a#3'], RUN);
    await one.receive(['a#1'], RUN);
    await one.end();
    await one.drain();
    expect(await one.effects()).toEqual(['a#3']);
    expect(await one.held()).toEqual([]);
    expect(one.metrics.sum('DroppedOlder')).toBe(2);
  });

  it('any: what failed before the reset is held until the run ends, unless the run brings it', async () => {
    let broken = true;
    const one = consumer('any', {
      attempts: 1,
      handlers: {
        'counter.added': async (event, { tx }) => {
          if (broken) throw new Error('as the test wants it');
          await tx.query('insert into effect (consumer, counter, sequence) values ($1, $2, $3)', [
            one.name,
            event.aggregateId,
            event.sequence.toString(),
          ]);
        },
      },
    });
    await one.receive(['a#1', 'b#1']);
    expect(await one.held()).toEqual(['a#1 failing', 'b#1 failing']);
    broken = false;
    expect(await one.reset()).toMatchObject({ held: 2 });
    await one.receive(['a#1'], RUN);
    expect(await one.effects()).toEqual(['a#1']);
    await one.end();
    await one.drain();
    expect(await one.effects()).toEqual(['a#1', 'b#1']);
  });
});

describe('a reset', () => {
  it('waits for a transaction of the consumer, which is part of what is forgotten', async () => {
    let release = (): void => {};
    const started = Promise.withResolvers<void>();
    const one = consumer('any', {
      handlers: {
        'counter.added': async (event, { tx }) => {
          await tx.query('insert into effect (consumer, counter, sequence) values ($1, $2, $3)', [
            one.name,
            event.aggregateId,
            event.sequence.toString(),
          ]);
          if (event.replay !== undefined) return;
          started.resolve();
          await new Promise<void>((resolve) => (release = resolve));
        },
      },
    });
    await one.drain();
    const applying = one.receive(['a#1']);
    await started.promise;
    const resetting = one.reset();
    await untilOneWaits(migrator);
    release();
    await applying;
    await resetting;
    await one.wipe();
    await one.receive(['a#1'], RUN);
    expect(await one.effects()).toEqual(['a#1']);
  });

  it.each(MODES)('waits for what is taken out of the held events, too, in mode %s', async (mode) => {
    let broken = true;
    let release = (): void => {};
    const started = Promise.withResolvers<void>();
    const one = consumer(mode, {
      attempts: 1,
      handlers: {
        'counter.added': async () => {
          if (broken) throw new Error('as the test wants it');
          started.resolve();
          await new Promise<void>((resolve) => (release = resolve));
        },
      },
    });
    await one.receive(['a#1']);
    broken = false;
    await retryHeld(operator, one.name, one.idOf('a#1'), 'the handler was mended');
    const draining = one.drain();
    await started.promise;
    const resetting = one.reset();
    await untilOneWaits(migrator);
    release();
    await draining;
    expect(await resetting).toMatchObject({ held: 0 });
  });

  /** What keeps an event of a consumer, by the function of the database that does it. */
  const KEEPS = {
    hold: `select held from inbox.hold($1, 'any', json_build_array($2::json))`,
    count_failure: `select held from inbox.count_failure($1, 'any', $2, 'HANDLER_FAILED', 1)`,
  };
  it.each(Object.entries(KEEPS))('is waited for by %s, which keeps what it has forgotten', async (_, keep) => {
    const one = consumer('any');
    await one.receive(['a#1']);
    const kept = {
      id: one.idOf('a#1'),
      time: new Date(),
      type: 'counter.added',
      aggregate: 'counter',
      subject: 'a',
      sequence: 1,
      reason: 'failing',
      body: '{}',
      error: 'HANDLER_FAILED',
      blocks: false,
    };
    const resetting = await operator.connect();
    let keeping: Promise<{ rows: { held: boolean }[] }>;
    try {
      await resetting.query('begin');
      await resetConsumer(resetting, one.name, {}, RUN, 'it was wrong');
      keeping = pool.query(keep, [one.name, JSON.stringify(kept)]);
      await untilOneWaits(migrator);
      await resetting.query('commit');
    } finally {
      resetting.release();
    }
    expect((await keeping).rows).toEqual([{ held: true }]);
    expect(await one.held()).toEqual(['a#1 failing']);
  });

  it('is written to the audit, and so is the end; both belong to operators', async () => {
    const one = consumer('strict');
    await one.receive(['a#1']);
    await one.reset({ aggregateType: 'counter' });
    await one.end();
    const { rows } = await migrator.query(
      `select act, actor, detail ->> 'why' as why from inbox.audit where detail ->> 'consumer' = $1 order by number`,
      [one.name],
    );
    expect(rows).toEqual([
      { act: 'reset_consumer', actor: 'sealed_operator', why: 'it was wrong' },
      { act: 'end_replay', actor: 'sealed_operator', why: 'all is sent' },
    ]);
    await expect(resetConsumer(pool, one.name, {}, RUN, 'r')).rejects.toMatchObject({ code: 'OPERATION_FORBIDDEN' });
    await expect(endReplay(pool, one.name, 'r')).rejects.toMatchObject({ code: 'OPERATION_FORBIDDEN' });
  });

  it('gives the consumer no way to remove a dedupe row that is not void', async () => {
    const one = consumer('strict');
    const record = one.message('a#1');
    await invoke(one.handler, [record]);
    const { id } = JSON.parse(record.body);
    const forget = (): Promise<unknown> =>
      pool.query('select inbox.forget($1, $2)', [
        one.name,
        JSON.stringify([{ id, aggregate: 'counter', subject: 'a', replay: RUN }]),
      ]);
    await forget();
    expect(await inboxOf(pool, one.name, 'a')).toEqual({ processed: 1, position: '1' });
    await one.reset();
    await forget();
    expect(await inboxOf(pool, one.name, 'a')).toEqual({ processed: 0, position: null });
  });

  it('is asked for before anything is written: batches after it do not move positions only to take that back', async () => {
    const one = consumer('strict');
    await one.receive(['a#1']);
    const next = `select inbox.take_next($1, 'strict', 'beginning', '35 days', $2, $3) is not null as taken`;
    const values = [
      one.name,
      JSON.stringify([{ aggregate: 'counter', subject: 'a', first: 2, last: 2 }]),
      JSON.stringify([{ id: randomUUID(), time: new Date().toISOString(), aggregate: 'counter', subject: 'a' }]),
    ];
    const taken = async () => {
      const client = await pool.connect();
      try {
        await client.query('begin');
        const { rows } = await client.query(next, values);
        const { rows: moved } = await client.query(
          `select 1 from inbox.stream_position where consumer = $1 and sequence = 2`,
          [one.name],
        );
        await client.query('rollback');
        return { ...rows[0], moved: moved.length };
      } finally {
        client.release();
      }
    };
    expect(await taken()).toEqual({ taken: true, moved: 1 });
    await one.reset({ aggregateType: 'other' });
    await one.end();
    expect(await taken()).toEqual({ taken: false, moved: 0 });
    await one.receive(['a#2']);
    expect(await one.effects()).toEqual(['a#1', 'a#2']);
  });
});
