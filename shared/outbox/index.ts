/**
 * The outbox. A tour, in the order in which an event meets it:
 *
 * 1. `create-outbox.ts`   `outbox.append(tx, events)`: checked against the catalogue, one SQL call inside the caller's transaction.
 *                         The SQL side is `migrations/outbox/0010_sealed_paths.sql`: sequence under the aggregate's row lock, one delivery per route.
 *    `prepare.ts`         `outbox.prepare({ subjects })` loads the keys of persons first, where the catalogue marks their data.
 * 2. `relay/relay.ts`     the loop: lease, fetch, pack, publish, settle.
 *    `relay/lease.ts`     partitions are leased, not rows; `relay/share.ts` says how many each relay gets.
 *    `relay/lane.ts`      one destination's work: calls, a scan for more and a settlement, all at once (`lane-calls.ts`, `lane-scan.ts`,
 *                         `lane-settlement.ts`).
 *    `relay/cursor.ts`    how far the scan has come; `relay/find.ts` finds aggregates with work, and looks up everything of them that is
 *                         not out yet: what order rests on.
 *    `relay/backlog.ts`   what is held in memory: a delivery is offered only when every lower one of its aggregate was acknowledged.
 *    `relay/pack.ts`      heads of different aggregates fill a call.
 *    `publish/`           the port to a queue or bus, with SQS and EventBridge behind it.
 *    `relay/outcome.ts`   published, retry, parked, or an outage that is nobody's fault; `relay/failure-class.ts` by which code.
 *    `relay/settle.ts`    writes it down: first publish, then mark.
 *    `relay/replays.ts`   replays, one after the other, in a lane of their own; `relay/replay-work.ts` is what that lane finds otherwise, and
 *                         `relay/pace.ts` how fast it may go. The SQL side is `migrations/outbox/0009_replay.sql`.
 * 3. `lag.ts`             what waits, seen independently of the relay.
 * 4. `operate/`           what a person does about it: list what is parked, send it again, leave it out, let go what it blocked, go on after a
 *                         restore. The SQL side is `migrations/outbox/0006_operations.sql`: each act locks, looks again, and is audited.
 *    `operate/replay.ts`  send again what was sent before, to one destination; `operate/return-archived.ts` brings it back from the archive.
 *    `operate/redrive-dead-letters.ts`  sends what a consumer gave up to its queue again.
 *    `operate/operator-act.ts`  writes down who called the operator's function for what, and how it ended.
 * 5. `janitor/`           archives and deletes what is out everywhere and old. The SQL side is `migrations/outbox/0008_retention.sql`.
 */
export type { AnyEvent } from './append.ts';
export type { Cause } from './cause.ts';
export {
  type AppendedEvent,
  type AppendOptions,
  createOutbox,
  type Outbox,
  type OutboxEvent,
  type OutboxOptions,
  type PrepareOptions,
  type Writer,
} from './create-outbox.ts';
export {
  CommitNotDurableError,
  EventDataInvalidError,
  EventMalformedError,
  EventNotSealedError,
  EventRefusedError,
  EventTooLargeError,
  EventTypeUnknownError,
  NotATransactionError,
} from './errors.ts';
export { type OutboxRetention, outboxWalks } from './janitor/outbox-walks.ts';
export { type DatabaseAge, readDatabaseAge } from './database-age.ts';
export { type DestinationLag, type Lag, readLag } from './lag.ts';
export { listParked, type ListParkedOptions, type ParkedDelivery, type ParkedPage } from './operate/list-parked.ts';
export {
  beginOperatorAct,
  endOperatorAct,
  listOperatorActs,
  type OperatorAct,
  type OperatorCall,
  type OperatorOutcome,
} from './operate/operator-act.ts';
export { type Installation, type KnownRelay, readInstallation } from './operate/outbox-state.ts';
export { OperationError } from './operate/operation-error.ts';
export { redrive, type Redriven } from './operate/redrive.ts';
export {
  type DeadLetterRedrive,
  type DeadLettersRedriven,
  redriveDeadLetters,
} from './operate/redrive-dead-letters.ts';
export { returnArchived } from './operate/return-archived.ts';
export {
  cancelReplay,
  countReplay,
  listReplays,
  pauseReplay,
  type Replay,
  type ReplayCount,
  type ReplayScope,
  type ReplayStart,
  type ReplayState,
  resumeReplay,
  startReplay,
} from './operate/replay.ts';
export { restore, type Restored } from './operate/restore.ts';
export {
  type ShownAggregate,
  type ShownDelivery,
  showAggregate,
  showParked,
  type UnfinishedDelivery,
} from './operate/show.ts';
export { skip, type Skipped } from './operate/skip.ts';
export { type BlockedAggregate, unblock } from './operate/unblock.ts';
export { type BlockedChain, listBlocked, listPending, type PendingDelivery } from './operate/waiting.ts';
export { eventBridgePublisher, type EventBridgePublisherOptions } from './publish/eventbridge-publisher.ts';
export { messageGroupId } from './publish/group-id.ts';
export { PublishError } from './publish/publish-error.ts';
export type { Message, Publisher, PublisherLimits, PublishResult } from './publish/publisher.ts';
export { sqsPublisher, type SqsPublisherOptions } from './publish/sqs-publisher.ts';
export { type Clock, systemClock } from './relay/clock.ts';
export type { WindowLimits } from './relay/lane-state.ts';
export type { RetryPolicy } from './relay/outcome.ts';
export { type RelayConnection, type RelayEnd, type RelayOptions, type RelayReport, runRelay } from './relay/relay.ts';
export type { Transaction } from './transaction-check.ts';
export { catalogueRows, compiledCatalogue, defineCatalogue, upcaster } from '../events/index.ts';
