import { randomUUID } from 'node:crypto';
import { beforeEach, describe, expect, it } from 'vitest';
import { type HeldReason, readHeldLag } from '../../../shared/inbox/index.ts';
import { testDatabase } from '../../support/database.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const monitor = await database.client('sealed_monitor');

beforeEach(async () => {
  await owner.query('truncate inbox.held_event, inbox.consumer cascade');
  await owner.query(`insert into inbox.consumer (name, mode, starting_point) values ('ledger', 'strict', 'beginning')`);
});

interface Held {
  readonly reason: HeldReason;
  readonly sequence?: number;
  readonly minutes?: number;
  readonly consumer?: string;
  readonly aggregate?: string;
  readonly blocks?: boolean;
  readonly queued?: boolean;
  readonly wanted?: 'retry' | 'release' | 'skip';
  /** Of a failing one: when it is tried again, as an interval from now, or `infinity`. */
  readonly due?: string;
}

/** Puts events aside that have been held for so many minutes; 10 where nothing is said. */
async function hold(...events: readonly Held[]): Promise<void> {
  for (const event of events) {
    const { consumer = 'ledger', aggregate = 'a', sequence = 1, reason, minutes = 10, blocks = true } = event;
    await owner.query(
      `insert into inbox.held_event
         (consumer, event_id, aggregate_type, aggregate_id, sequence, reason, body, held_at, blocks, queued, wanted, due_at)
       values ($1, $2, $3, $4, $5, $6, '', now() - $7 * interval '1 minute', $8, $9, $10,
               case when $11::text = 'infinity' then 'infinity' else now() + $11::text::interval end)`,
      [
        consumer,
        randomUUID(),
        aggregate === '' ? '' : 'counter',
        aggregate,
        sequence,
        reason,
        minutes,
        blocks,
        event.queued ?? false,
        event.wanted ?? null,
        event.due ?? '-1 day',
      ],
    );
  }
}

/** The one consumer's lag, in whole minutes. */
async function lag(): Promise<{ held: number; person: number; turn: number }> {
  const [one] = await readHeldLag(monitor);
  const minutes = (seconds = -60): number => Math.floor(seconds / 60);
  return {
    held: one?.held ?? -1,
    person: minutes(one?.oldestForPersonSeconds),
    turn: minutes(one?.oldestForTurnSeconds),
  };
}

describe('what a monitor sees of held events', () => {
  it('is zero for a consumer that holds nothing', async () => {
    expect(await readHeldLag(monitor)).toEqual([
      { consumer: 'ledger', held: 0, oldestForPersonSeconds: 0, oldestForTurnSeconds: 0 },
    ]);
  });

  it.each<[string, Held]>([
    ['came late', { reason: 'late', blocks: false }],
    ['is too old', { reason: 'too-old' }],
    ['is malformed', { reason: 'malformed' }],
    ['is no event of ours', { reason: 'malformed', aggregate: '', blocks: false }],
    ['is of a type that nobody knows', { reason: 'unknown-type' }],
    ['is of a version that nobody knows', { reason: 'unknown-version' }],
    ['may not be opened', { reason: 'denied' }],
    ['has failed as often as it may', { reason: 'failing', due: 'infinity' }],
    ['is to be tried again as an operator said, and was not yet', { reason: 'failing', wanted: 'retry' }],
    ['is to be released, and was not yet', { reason: 'late', blocks: false, wanted: 'release' }],
  ])('is an event that waits for a person where it %s', async (_what, event) => {
    await hold(event);
    expect(await lag()).toEqual({ held: 1, person: 10, turn: 0 });
  });

  it.each<[string, Held, number]>([
    ['a gap is before it', { reason: 'gap', sequence: 3 }, 10],
    ['what was before it is gone', { reason: 'blocked', sequence: 3 }, 10],
    ['it is due for another try, since then', { reason: 'failing', due: '-4 minutes' }, 4],
    ['it is not yet due for another try', { reason: 'failing', due: '4 minutes' }, 0],
  ])('is an event that waits for its turn where %s', async (_what, event, turn) => {
    await hold(event);
    expect(await lag()).toEqual({ held: 1, person: 0, turn });
  });

  it('counts what is behind one that waits for a person, and does not let it grow old', async () => {
    await hold(
      { reason: 'failing', sequence: 2, due: 'infinity', minutes: 7 },
      { reason: 'blocked', sequence: 3 },
      { reason: 'gap', sequence: 5, minutes: 20 },
    );
    expect(await lag()).toEqual({ held: 3, person: 7, turn: 0 });
  });

  it('lets grow old what is before that one, of another aggregate, or not kept back by it', async () => {
    await hold({ reason: 'unknown-type', sequence: 4, minutes: 1 }, { reason: 'gap', sequence: 3, minutes: 12 });
    expect(await lag()).toEqual({ held: 2, person: 1, turn: 12 });
    await hold({ reason: 'gap', sequence: 9, minutes: 15, aggregate: 'b' });
    expect(await lag()).toEqual({ held: 3, person: 1, turn: 15 });
    await hold(
      { reason: 'late', sequence: 1, blocks: false, aggregate: 'c', minutes: 2 },
      { reason: 'gap', sequence: 9, aggregate: 'c', minutes: 30 },
    );
    expect(await lag()).toEqual({ held: 5, person: 2, turn: 30 });
  });

  it('tells the oldest', async () => {
    await hold(
      ...[3, 9, 6].map((minutes) => ({ reason: 'malformed', aggregate: '', blocks: false, minutes }) as const),
    );
    expect(await lag()).toEqual({ held: 3, person: 9, turn: 0 });
  });

  it('counts what waits for the end of a replay, which may take long, and does not let it grow old', async () => {
    await hold({ reason: 'replay' }, { reason: 'replay', sequence: 2 });
    expect(await lag()).toEqual({ held: 2, person: 0, turn: 0 });
  });

  it('leaves out what only counts the failures of a message that is still in its queue', async () => {
    await hold({ reason: 'failing', queued: true });
    expect(await lag()).toEqual({ held: 0, person: 0, turn: 0 });
  });

  it('keeps consumers apart', async () => {
    await owner.query(
      `insert into inbox.consumer (name, mode, starting_point) values ('analytics', 'any', 'first-seen')`,
    );
    await hold(
      { reason: 'failing', due: 'infinity', sequence: 2, consumer: 'analytics', minutes: 3 },
      { reason: 'gap', sequence: 4, minutes: 8 },
    );
    const minutes = (await readHeldLag(monitor)).map((it) => [
      it.consumer,
      it.held,
      Math.floor(it.oldestForPersonSeconds / 60),
      Math.floor(it.oldestForTurnSeconds / 60),
    ]);
    expect(minutes).toEqual([
      ['analytics', 1, 3, 0],
      ['ledger', 1, 0, 8],
    ]);
  });
});
