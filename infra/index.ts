/**
 * Constructs for your own stack:
 *
 * - `OutboxDatabase`: your PostgreSQL, migrated, with one login per function
 * - `EventQueue`: a FIFO queue with its dead-letter queue, for one consumer
 * - `Outbox`: the relay and the monitor, on their schedules
 * - `EventConsumer`: a function that applies the events of a queue
 * - `EventApi`: an HTTP API whose function writes events
 * - `OutboxAlarms`: alarms with a runbook each
 */
export { EventApi, type EventApiProps } from './constructs/event-api.ts';
export { EventConsumer, type EventConsumerProps } from './constructs/event-consumer.ts';
export { EventQueue, type EventQueueProps } from './constructs/event-queue.ts';
export type { FunctionDefaults } from './constructs/node-function.ts';
export { Outbox, type OutboxProps } from './constructs/outbox.ts';
export { OutboxAlarms, type OutboxAlarmsProps } from './constructs/outbox-alarms.ts';
export {
  type DatabaseAuth,
  type DatabaseConnection,
  type DatabaseLogin,
  OutboxDatabase,
  type OutboxDatabaseProps,
} from './constructs/outbox-database.ts';
