import { SealedOutboxError } from '../errors/index.ts';

/** A test asks for what there is not: `EVENT_NOT_IN_CATALOGUE`, `EVENT_DATA_INVALID`, `HANDLER_MISSING`, `CALL_NOT_EXPECTED`. */
export class TestingError extends SealedOutboxError {}
