import type pg from 'pg';
import {
  type ConsumedEvent,
  type ConsumerOptions,
  eventConsumer,
  type Handler,
  type Handlers,
  type Mode,
  type StartingPoint,
  type TimeMargins,
  type UnknownTypes,
} from '../../shared/inbox/index.ts';
import { counterCatalogue } from './counter-events.ts';
import type { TestDatabase } from './database.ts';
import { recordingLog, recordingMetrics } from './recorders.ts';

/** What the counter consumer has done, in order. */
export interface Effect {
  readonly counter: string;
  readonly sequence: string;
}

/** Makes the table of effects in a test database. */
export async function createEffects(database: TestDatabase): Promise<void> {
  const migrator = await database.client('sealed_migrator');
  await migrator.query(
    `create table effect (place bigint generated always as identity, consumer text, counter text, sequence bigint,
       unique (consumer, counter, sequence));
     grant select, insert on effect to sealed_ledger`,
  );
}

type CounterHandlers = Handlers<typeof counterCatalogue>;

/** Writes down that the event was applied. A second effect of one event is not refused here but by the test's eyes. */
export function effectHandler(consumer: string): Handler<ConsumedEvent<typeof counterCatalogue, 'counter.added'>> {
  return async (event, { tx }) => {
    await tx.query('insert into effect (consumer, counter, sequence) values ($1, $2, $3)', [
      consumer,
      event.aggregateId,
      event.sequence.toString(),
    ]);
  };
}

export interface CounterConsumerOptions {
  readonly name: string;
  readonly pool: pg.Pool;
  readonly mode?: Mode;
  readonly startingPoint?: StartingPoint;
  readonly handlers?: CounterHandlers;
  readonly margins?: TimeMargins;
  readonly unknownTypes?: UnknownTypes;
  readonly attempts?: number;
  readonly windowDays?: number;
  readonly together?: number;
}

/** A consumer of the counter's events with a log and metrics that can be read. */
export function counterConsumer(options: CounterConsumerOptions) {
  const log = recordingLog();
  const metrics = recordingMetrics();
  const { name, mode = 'strict', startingPoint = 'beginning', handlers, ...rest } = options;
  const consumer: ConsumerOptions<typeof counterCatalogue> = {
    name,
    catalogue: counterCatalogue,
    margins: { startMs: 100, stopMs: 50 },
    log,
    metrics,
    handlers: handlers ?? { 'counter.added': effectHandler(name) },
    ...rest,
    ...(mode === 'strict' ? { mode, startingPoint, destination: 'all' } : { mode }),
  };
  return { handler: eventConsumer(consumer), log, metrics, options: consumer };
}

/** The effects of a consumer in the order in which they were committed. */
export async function effectsOf(pool: pg.Pool, consumer: string): Promise<Effect[]> {
  const { rows } = await pool.query('select counter, sequence from effect where consumer = $1 order by place', [
    consumer,
  ]);
  return rows as Effect[];
}

/** What the inbox remembers of a consumer: dedupe rows and the position of a counter. */
export async function inboxOf(
  pool: pg.Pool,
  consumer: string,
  counter: string,
): Promise<{ processed: number; position: string | null }> {
  const { rows } = await pool.query(
    `select (select count(*)::int from inbox.processed_event where consumer = $1) as processed,
            (select nullif(sequence, 0) from inbox.stream_position where consumer = $1 and aggregate_id = $2) as position`,
    [consumer, counter],
  );
  return rows[0] as { processed: number; position: string | null };
}

/** What a consumer holds, in the order of the aggregates; without what only counts failures of messages that are still in the queue. */
export async function heldOf(
  pool: pg.Pool,
  consumer: string,
): Promise<{ counter: string; sequence: string; reason: string }[]> {
  const { rows } = await pool.query(
    `select aggregate_id as counter, sequence, reason from inbox.held_event where consumer = $1 and not queued
      order by aggregate_id, sequence`,
    [consumer],
  );
  return rows as { counter: string; sequence: string; reason: string }[];
}
