import { setTimeout as delay } from 'node:timers/promises';
import type pg from 'pg';
import { SealedOutboxError } from '../../shared/errors/index.ts';
import { endReplay, resetConsumer } from '../../shared/inbox/index.ts';
import { resumeReplay, startReplay } from '../../shared/outbox/index.ts';
import { CONSUMERS, type ConsumerName, MODES } from './catalogue.ts';
import { between, deck, type Random } from './random.ts';
import { removeEffects } from './read-models.ts';
import type { Stage } from './stage.ts';
import { isFault } from './writers.ts';

export const REPLAY = 'replay of an aggregate into a consumer that was reset';
export const REPLAY_OF_ALL = 'replay of everything into a consumer that was reset';

export interface ReplaysOptions {
  readonly stage: Stage;
  readonly random: Random;
  /** One of the busy ones, mostly. */
  readonly aggregate: (random: Random) => string;
  /** Whether something has been applied that can be replayed. */
  readonly mayBegin: () => boolean;
  /** Whether the first replay is to be that of everything, into the strict consumer. */
  readonly all: boolean;
  /** Average time between two, milliseconds. */
  readonly everyMs: number;
  readonly injected: (kind: string) => void;
  /** No new one begins. */
  readonly calm: AbortSignal;
  /** The one under way is left. */
  readonly signal: AbortSignal;
}

/** A replay of which nothing moves for so long is reported as one that never ended. Milliseconds. */
const PATIENCE_MS = 90_000;
const LOOK_MS = 100;

/**
 * Replays everything into the strict consumer, where that is wanted, and then one aggregate after the other into one consumer after the other, while it goes on
 * with live events.
 *
 * @returns how many did not end
 */
export async function runReplays(options: ReplaysOptions): Promise<number> {
  const { random, calm, signal } = options;
  const deal = deck(random, CONSUMERS);
  const over = AbortSignal.any([calm, signal]);
  let unfinished = 0;
  let first = true;
  while (!over.aborted) {
    await delay(options.everyMs * between(random, 0.5, 1.5), undefined, { signal: over }).catch(() => {});
    if (over.aborted) break;
    if (!options.mayBegin()) continue;
    const replaysAll: boolean = first && options.all;
    first = false;
    const ended = replaysAll
      ? await replay(options, 'ledger', undefined)
      : await replay(options, deal(), options.aggregate(random));
    if (!ended && !signal.aborted) unfinished += 1;
  }
  return unfinished;
}

/**
 * As the guide has it: start it paused, reset the consumer, remove its effects, resume, and end the run when all has been given out.
 * It counts as met once it has messages: faults meet it from then on, and its end is waited for after them.
 *
 * @returns whether it ended
 */
async function replay(
  { stage, signal, injected }: ReplaysOptions,
  consumer: ConsumerName,
  aggregateId: string | undefined,
): Promise<boolean> {
  const why = 'chaos';
  const scope = { aggregateType: 'account', ...(aggregateId !== undefined && { aggregateId }) };
  const patience = { until: performance.now() + PATIENCE_MS };
  const moved = (): void => void (patience.until = performance.now() + PATIENCE_MS);
  const act = <T>(task: (db: pg.Client) => Promise<T>, done: T): Promise<T> =>
    insist(() => stage.connect('sealed_operator'), task, done, patience, signal);
  const look = <T>(task: (db: pg.Client) => Promise<T>, done: T): Promise<T> =>
    insist(() => stage.connect('postgres'), task, done, patience, signal);

  // One whose start was not answered stays paused, and harms nobody.
  const number = await act(
    (db) => startReplay(db, { destination: consumer, scope, paused: true, perSecond: 5_000 }, why),
    0,
  );
  if (number === 0) return false;
  // Not before it has registered.
  while (!(await look((db) => isRegistered(db, consumer), false))) {
    if (signal.aborted || performance.now() > patience.until) return false;
    await delay(LOOK_MS);
  }
  await act(async (db) => void (await resetConsumer(db, consumer, scope, number, why)), undefined);
  await look((db) => removeEffects(db, consumer, aggregateId), undefined);
  await act((db) => resumeReplay(db, number, why), undefined);
  moved();
  let last = '';
  let met = false;
  for (;;) {
    const before = performance.now();
    const seen = await look((db) => progressOf(db, number, consumer), undefined);
    if (!met && seen !== undefined && seen.planned > 0) {
      met = true;
      injected(aggregateId === undefined ? REPLAY_OF_ALL : REPLAY);
    }
    if (seen?.done === true && seen.waits === 0) {
      await act(async (db) => void (await endReplay(db, consumer, why)), undefined);
      return true;
    }
    const now = JSON.stringify(seen);
    if (now !== last) moved();
    last = now;
    if (signal.aborted || performance.now() > patience.until) return false;
    await delay(Math.max(LOOK_MS, 5 * (performance.now() - before)));
  }
}

/** Does it again when the database was away; `done` where the answer of an earlier attempt was lost, or time is up. */
async function insist<T>(
  connect: () => Promise<pg.Client>,
  task: (db: pg.Client) => Promise<T>,
  done: T,
  patience: { readonly until: number },
  signal: AbortSignal,
): Promise<T> {
  while (!signal.aborted && performance.now() < patience.until) {
    try {
      const db = await connect();
      try {
        return await task(db);
      } finally {
        await db.end().catch(() => {});
      }
    } catch (error) {
      if (error instanceof SealedOutboxError && error.code === 'NOT_IN_STATE') return done;
      if (!isFault(error) && !(error instanceof SealedOutboxError && error.code === 'OPERATION_BUSY')) throw error;
      await delay(LOOK_MS);
    }
  }
  return done;
}

async function isRegistered(db: pg.Client, consumer: string): Promise<boolean> {
  const { rowCount } = await db.query('select from inbox.consumer where name = $1', [consumer]);
  return rowCount === 1;
}

interface ReplayProgress {
  readonly done: boolean;
  readonly planned: number;
  /** Messages that the consumer has not applied, held or dropped yet. */
  readonly waits: number;
}

async function progressOf(db: pg.Client, number: number, consumer: ConsumerName): Promise<ReplayProgress> {
  const { rows } = await db.query(
    `select r.state = 'done' as done, r.planned::float8 as planned,
            (select count(*)::integer from outbox.delivery d
                join outbox.event e on e.id = d.event_id
                join inbox.reset s on s.consumer = $2 and s.replay = $1
               where d.replay = $1
                 and not exists (select from inbox.processed_event p
                                  where p.consumer = $2 and p.event_id = e.id and p.processed_at >= s.reset_at)
                 and not exists (select from inbox.held_event h
                                  where h.consumer = $2 and h.event_id = e.id and not h.queued and h.reason <> 'replay')
                 and not ($3 = 'latest' and exists (
                       select from inbox.stream_position o
                        where o.consumer = $2 and o.aggregate_type = e.aggregate_type and o.aggregate_id = e.aggregate_id
                          and o.sequence >= e.sequence))) as waits
       from outbox.replay r where r.number = $1`,
    [number, consumer, MODES[consumer]],
  );
  return rows[0];
}
