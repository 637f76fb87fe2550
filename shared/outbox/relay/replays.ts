import type { Queryable } from '../../database/index.ts';
import { START } from './cursor.ts';
import { runLane } from './lane.ts';
import type { LaneContext, WindowLimits } from './lane-state.ts';
import { pace } from './pace.ts';
import { replayWork } from './replay-work.ts';

/** How often the relay asks whether there is a replay. Milliseconds. */
const LOOK_MS = 1_000;
/** Calls in flight: enough for half of what the live lane sends, and little in the way of its own. */
const CONCURRENCY = 12;
/** A quarter of a live lane's. */
const WINDOW: WindowLimits = { rows: 8_000, bytes: 8 * 1024 * 1024, page: 1_000, rowsOfAggregate: 20 };
/** Between two looks whether what is waited for is out, and how long a relay that drains does so. Milliseconds. */
const WAIT_MS = 50;
const DRAIN_WAIT_MS = 1_000;
/** Events that one step of planning reads: short, because the live lanes wait for the connection meanwhile. */
const STEP = 500;
/** Between two steps, as a part of what the last one took: time in which live lanes meet no step. */
const REST = 1 / 3;

interface Replay {
  readonly number: number;
  readonly perSecond: number;
}

/**
 * The replays to one destination, one after the other, in a lane of their own: planned in short steps, then sent at their own pace. It shares
 * the live lane's lease, circuit and publisher, and none of its chains.
 */
export async function runReplays(live: LaneContext): Promise<void> {
  const { clock, signal, drain } = live;
  const isOver = (): boolean => live.isOver() || signal.aborted;
  let unfinished: number | undefined;
  while (!isOver()) {
    const replay = await nextReplay(live.db, live.destination.number);
    // Another relay is still sending it, or parked something just now.
    if (replay === undefined || replay.number === unfinished) {
      if (drain) return;
      unfinished = undefined;
      await clock.sleep(LOOK_MS, signal);
      continue;
    }
    if (!(await plan(live, replay, isOver))) {
      if (drain) return;
      continue;
    }
    unfinished = (await send(live, replay)) ? undefined : replay.number;
  }
}

async function nextReplay(db: Queryable, destination: number): Promise<Replay | undefined> {
  const { rows } = await db.query('select number, per_second as "perSecond" from outbox.next_replay($1)', [
    destination,
  ]);
  return rows[0] as Replay | undefined;
}

/**
 * Answers whether the plan is complete. A quarter of the time is the live lanes' alone. A step that goes no further waits for live deliveries that are under way:
 * a relay that drains does so for a moment only.
 */
async function plan(
  { db, clock, drain, signal }: LaneContext,
  { number }: Replay,
  isOver: () => boolean,
): Promise<boolean> {
  let [walkedTo, movedAt] = ['', clock.monotonic()];
  for (;;) {
    const before = clock.monotonic();
    // State and place as they were before this step.
    const { rows } = await db.query(
      'select outbox.plan_replay($1, $2) as planned, state, walked_to from outbox.replay where number = $1',
      [number, STEP],
    );
    const [{ planned, state, walked_to }] = rows as [{ planned: boolean; state: string; walked_to: string }];
    if (planned) return true;
    if (isOver() || state !== 'running') return false;
    const moved = walked_to !== walkedTo;
    if (moved) [walkedTo, movedAt] = [walked_to, clock.monotonic()];
    if (drain && clock.monotonic() - movedAt > DRAIN_WAIT_MS) return false;
    await clock.sleep(Math.max(moved ? 1 : WAIT_MS, REST * (clock.monotonic() - before)), signal);
  }
}

/** Answers whether the replay runs no more. */
async function send(live: LaneContext, { number, perSecond }: Replay): Promise<boolean> {
  const { clock, db } = live;
  const work = replayWork(number, clock);
  await runLane({
    ...live,
    work,
    start: () => START,
    window: WINDOW,
    concurrency: Math.min(CONCURRENCY, live.concurrency),
    pace: pace(perSecond, clock.monotonic()),
    isOver: () => live.isOver() || work.stopped || work.empty,
  });
  if (work.stopped) return true;
  const { rows } = await db.query('select outbox.finish_replay($1) as done', [number]);
  return rows[0].done;
}
