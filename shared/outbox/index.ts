export type { AnyEvent } from './append.ts';
export {
  type AppendedEvent,
  createOutbox,
  type Outbox,
  type OutboxEvent,
  type OutboxOptions,
} from './create-outbox.ts';
export {
  CommitNotDurableError,
  EventDataInvalidError,
  EventMalformedError,
  EventRefusedError,
  EventTooLargeError,
  EventTypeUnknownError,
  NotATransactionError,
} from './errors.ts';
export type { Transaction } from './transaction-check.ts';
export { catalogueRows, defineCatalogue } from '../events/index.ts';
