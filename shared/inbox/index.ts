/**
 * The consuming side. Read in this order: `read-event.ts` and `newest-event.ts` (from a message to
 * what a handler sees), `order.ts` (which event may be applied next), `apply.ts` (one event in one
 * transaction), `batch.ts` (groups of a batch), `event-consumer.ts` (the Lambda handler). The guide is docs/consumer.md.
 */
export {
  ConsumerChangedError,
  ConsumerOptionsError,
  HandlerFailedError,
  NotABatchError,
  OrderGapError,
  OrderLateError,
  OutOfTimeError,
} from './errors.ts';
export { type ConsumerOptions, eventConsumer } from './event-consumer.ts';
export type { FailureClass } from './failure.ts';
export type { ConsumedEvent, Handler, HandlerContext, Handlers } from './handlers.ts';
export type { TimeMargins } from './invocation.ts';
export type { Mode, StartingPoint } from './order.ts';
export { type InboxRetention, inboxWalks } from './prune.ts';
/** What a consumer logs and counts into, for those who build one. */
export { emfMetrics, type EmfOptions, type Log, type Metrics, noMetrics } from '../telemetry/index.ts';
