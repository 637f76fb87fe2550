/**
 * The consuming side. Read in this order: `message.ts` (from a message to what a handler sees; `open-event.ts` opens what is
 * sealed in it), `order.ts` (which event may be applied
 * next), `apply.ts` (events in one transaction), `batch.ts` (groups of a batch), `hold.ts` and `drain.ts` (what waits in the database),
 * `once.ts` (calls of other systems), `event-consumer.ts` (the Lambda handler). The guides are docs/consumer.md and docs/external-effects.md.
 */
export { ConsumerOptionsError, type Mode, type StartingPoint } from '../events/index.ts';
export type { ConsumerOptions, HandlersOf } from './consumer-options.ts';
export {
  ConsumerChangedError,
  HandlerFailedError,
  NotABatchError,
  NotAppliedError,
  OutOfTimeError,
  TransactionEndedError,
} from './errors.ts';
export {
  AnswerNotRecordableError,
  CallHeldError,
  CallNotDoneError,
  CallNotReadyError,
  CallNotWrittenError,
  CallOptionsError,
  CallRefusedError,
  CallUnansweredError,
} from './call-errors.ts';
export type { CallPlace } from './call-key.ts';
export type { CallTimes } from './call-time.ts';
export { type ConsumerInput, drainHeld, type DrainRequest, eventConsumer } from './event-consumer.ts';
export type { UnansweredPolicy } from './external-call.ts';
export type { FailureClass } from './failure.ts';
export {
  type BeforeContext,
  type ConsumedData,
  type ConsumedEvent,
  type Handler,
  type HandlerContext,
  type Handlers,
  handlerSteps,
  type HandlerSteps,
  type ManyContext,
  type ManyHandler,
  type WhenFailing,
} from './handlers.ts';
export { type HeldLag, readHeldLag } from './held-lag.ts';
export type { HeldReason } from './hold.ts';
export type { TimeMargins } from './invocation.ts';
export type { CallOptions, LookupAnswer, Once } from './once.ts';
export { acceptGap, type ConsumedAggregate, releaseHeld, retryHeld, skipHeld } from './operate/acts.ts';
export { type HeldCall, listHeldCalls, recordHeldCall, repeatHeldCall } from './operate/held-calls.ts';
export { listConsumers, type RegisteredConsumer } from './operate/list-consumers.ts';
export { type HeldEvent, type HeldPage, listHeld, type ListHeldOptions } from './operate/list-held.ts';
export { type ConsumerReset, endReplay, resetConsumer, type ResetScope } from './operate/reset-consumer.ts';
export { HeldOperationError } from './operate/operation-error.ts';
export { showHeld, type ShownEvent } from './operate/show-held.ts';
export { type InboxRetention, inboxWalks } from './prune.ts';
export type { UnknownTypes } from './work.ts';
/** What a consumer logs and counts into, for those who build one. */
export { emfMetrics, type EmfOptions, type Log, type Metrics, noMetrics } from '../telemetry/index.ts';
