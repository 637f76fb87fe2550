import { SealedOutboxError } from '../../errors/index.ts';

/**
 * A call to a destination failed as a whole. `code` is what the destination or the network called it (`ThrottlingException`,
 * `ECONNREFUSED`, `TimeoutError`), and decides what becomes of the messages.
 */
export class PublishError extends SealedOutboxError {}
