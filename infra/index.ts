/**
 * Constructs for your own stack:
 *
 * - `OutboxNetwork`: a VPC without a way in or out, with endpoints for what functions call; or yours
 * - `OutboxCluster`: an Aurora PostgreSQL cluster, by IAM and TLS only
 * - `OutboxDatabase`: your PostgreSQL, migrated, with one login per function; `connectionTo` says where it is
 * - `EventQueue`: a queue, FIFO or standard, with its dead-letter queue, for one consumer; `EventQueue.existing` for yours
 * - `BusToQueue`: a rule that hands events of an EventBridge bus to such a queue
 * - `Outbox`: the relay and the monitor, on their schedules; its `grantAppend` lets a function write events
 * - `EventConsumer`: a function that applies the events of a queue, and goes on with what it holds on a schedule
 * - `EventApi`: an HTTP API whose function writes events
 * - `Janitor`: what is no longer needed goes, on a schedule
 * - `EventArchive`: a bucket for events that go
 * - `Operator`: the function through which people look and act
 * - `SealingKeys`: the KMS key of a vault, given to functions by class of data
 * - `ErasureLog`: a bucket in which erasures are written down, outside the database
 * - `KeyAtRisk`: tells when somebody disables or deletes that key, or changes who may
 * - `OutboxAlarms`, `ConsumerAlarms`, `FunctionAlarms`, `DatabaseAlarms`, `SealingAlarms`: alarms with a runbook each
 * - `OutboxDashboard`: is anything stuck, where, since when
 */
export { BusToQueue, type BusToQueueProps } from './constructs/bus-to-queue.ts';
export { ConsumerAlarms, type ConsumerAlarmsProps } from './constructs/consumer-alarms.ts';
export { DatabaseAlarms, type DatabaseAlarmsProps, type ScalingCluster } from './constructs/database-alarms.ts';
export { ErasureLog, type ErasureLogProps } from './constructs/erasure-log.ts';
export { type ConnectionOptions, connectionTo } from './constructs/database-connection.ts';
export type { Destination } from './constructs/destination.ts';
export { EventApi, type EventApiProps } from './constructs/event-api.ts';
export { EventArchive, type EventArchiveProps } from './constructs/event-archive.ts';
export { EventConsumer, type EventConsumerProps } from './constructs/event-consumer.ts';
export { EventQueue, type EventQueueProps, type ExistingQueues, type IEventQueue } from './constructs/event-queue.ts';
export { FunctionAlarms, type FunctionAlarmsProps } from './constructs/function-alarms.ts';
export { Janitor, type JanitorProps } from './constructs/janitor.ts';
export type { FunctionNetwork } from './constructs/function-network.ts';
export { KeyAtRisk, type KeyAtRiskProps } from './constructs/key-at-risk.ts';
export type { FunctionDefaults } from './constructs/node-function.ts';
export { Operator, type OperatorErasesProps, type OperatorProps } from './constructs/operator.ts';
export { Outbox, type OutboxProps } from './constructs/outbox.ts';
export { OutboxAlarms, type OutboxAlarmsProps } from './constructs/outbox-alarms.ts';
export { MIGRATOR, OutboxCluster, type OutboxClusterProps } from './constructs/outbox-cluster.ts';
export {
  type DatabaseAuth,
  type DatabaseConnection,
  type DatabaseLogin,
  OutboxDatabase,
  type OutboxDatabaseProps,
} from './constructs/outbox-database.ts';
export { OutboxDashboard, type OutboxDashboardProps } from './constructs/outbox-dashboard.ts';
export {
  type ExistingNetwork,
  firstZones,
  OutboxNetwork,
  type OutboxNetworkProps,
} from './constructs/outbox-network.ts';
export { SealingAlarms, type SealingAlarmsProps } from './constructs/sealing-alarms.ts';
export type { KeyUser } from './constructs/key-user.ts';
export type { SealingAccess } from './constructs/sealing-access.ts';
export {
  type ISealingKeys,
  SealingKeys,
  type SealingKeysAttributes,
  type SealingKeysProps,
} from './constructs/sealing-keys.ts';
