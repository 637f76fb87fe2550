import type pg from 'pg';
import {
  type ConsumedEvent,
  eventConsumer,
  type Handler,
  type Handlers,
  type StartingPoint,
  type TimeMargins,
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
  readonly mode?: 'any' | 'strict';
  readonly startingPoint?: StartingPoint;
  readonly handlers?: CounterHandlers;
  readonly margins?: TimeMargins;
}

/** A consumer of the counter's events with a log and metrics that can be read. */
export function counterConsumer(options: CounterConsumerOptions) {
  const log = recordingLog();
  const metrics = recordingMetrics();
  const handler = eventConsumer({
    name: options.name,
    catalogue: counterCatalogue,
    pool: options.pool,
    log,
    metrics,
    margins: options.margins ?? { startMs: 100, stopMs: 50 },
    handlers: options.handlers ?? { 'counter.added': effectHandler(options.name) },
    ...(options.mode === 'any'
      ? { mode: 'any' }
      : { mode: 'strict', startingPoint: options.startingPoint ?? 'beginning' }),
  });
  return { handler, log, metrics };
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
            (select sequence from inbox.stream_position where consumer = $1 and aggregate_id = $2) as position`,
    [consumer, counter],
  );
  return rows[0] as { processed: number; position: string | null };
}
