import { randomUUID } from 'node:crypto';
import { inboxWalks } from '../../shared/inbox/index.ts';
import { silentLog } from '../../shared/telemetry/index.ts';
import { counterConsumer, type CounterConsumerOptions, createEffects, heldOf } from './counter-consumer.ts';
import { counterEnvelope, type CounterEvent } from './counter-events.ts';
import type { TestDatabase } from './database.ts';
import { DAY, walkAll } from './retention.ts';
import { fifoRecord } from './sqs-batch.ts';

/** What the janitor is told to keep in tests of windows. Days. */
export const KEPT_DAYS = 10;

export const daysAgo = (days: number): string => new Date(Date.now() - days * DAY * 1000).toISOString();

/** Messages of one event of the counter, always the same one; `days` old. */
export function eventOf(days: number, more: Partial<CounterEvent> = {}) {
  const event = { counter: 'a', sequence: 1, id: randomUUID(), time: daysAgo(days), ...more };
  return {
    id: event.id,
    message: (again: Partial<CounterEvent> = {}) => fifoRecord(event.counter, counterEnvelope({ ...event, ...again })),
  };
}

/** Consumers whose processes differ in their windows, and a janitor that keeps ten days. */
export function windowsOf(database: TestDatabase) {
  const pool = database.pool('sealed_ledger');
  const owner = database.pool('sealed_migrator');
  const janitor = database.pool('sealed_janitor');
  let made = 0;
  return {
    pool,
    owner,
    janitor,
    operator: database.pool('sealed_operator'),
    /** Nothing but the consumer keeps an effect from happening twice. */
    prepare: async (): Promise<void> => {
      await createEffects(database);
      await owner.query('alter table effect drop constraint effect_consumer_counter_sequence_key');
    },
    newName: (): string => `windows-${(made += 1)}`,
    /** A process of the consumer: it registers the window that it was started with. */
    processOf: (name: string, windowDays: number, more: Partial<CounterConsumerOptions> = {}) =>
      counterConsumer({ name, pool, windowDays, mode: 'any', ...more }).handler,
    prune: async (log = silentLog) =>
      walkAll(await inboxWalks(janitor, { keepSeconds: KEPT_DAYS * DAY, sweepSeconds: 0, log })),
    dedupeRows: async (name: string): Promise<string[]> => {
      const { rows } = await owner.query(
        'select event_id as id from inbox.processed_event where consumer = $1 order by event_id',
        [name],
      );
      return rows.map(({ id }) => id as string);
    },
    held: async (name: string): Promise<string[]> => (await heldOf(pool, name)).map(({ reason }) => reason),
  };
}
