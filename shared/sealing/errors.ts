import { SealedOutboxError } from '../errors/index.ts';

/**
 * Why a sealed value was not opened. The set is closed; that a person was erased is an answer and no error.
 *
 * - `SEALING_DENIED`: this reader may not open values of the class;
 * - `SEALING_KEY_UNKNOWN`: no such key, now or ever;
 * - `SEALING_TAMPERED`: the value does not belong to this place, or was changed;
 * - `SEALING_MALFORMED`: it is no sealed value in the only way of writing it, or what it holds is no value;
 * - `SEALING_THROTTLED`, `SEALING_UNAVAILABLE`: the keys cannot be reached now; later they can;
 * - `SEALING_KEY_DISABLED`: the KMS key is disabled or about to be deleted;
 * - `SEALING_LIMIT`: longer or deeper than a sealed value may be.
 */
export type SealingErrorCode =
  | 'SEALING_DENIED'
  | 'SEALING_KEY_UNKNOWN'
  | 'SEALING_TAMPERED'
  | 'SEALING_MALFORMED'
  | 'SEALING_THROTTLED'
  | 'SEALING_UNAVAILABLE'
  | 'SEALING_KEY_DISABLED'
  | 'SEALING_LIMIT';

/** A sealed value stays closed. The message names the rule or the place, never a value and never a key. */
export class SealingError extends SealedOutboxError {
  declare readonly code: SealingErrorCode;
  /** JSON Pointer to the value in its data, where it stands in data. */
  readonly pointer: string | undefined;

  constructor(code: SealingErrorCode, message: string, pointer?: string) {
    super(code, message);
    this.pointer = pointer;
  }
}

/** `SEALING_REFUSED`: the writer gave something that cannot be sealed. The message names the place and the rule. */
export class SealingRefusedError extends SealedOutboxError {
  /** JSON Pointer to the value in its data; empty for a value that stands alone. */
  readonly pointer: string;
  readonly #reason: string;

  constructor(reason: string, pointer = '') {
    super(
      'SEALING_REFUSED',
      `${pointer === '' ? 'The value' : `The value at ${pointer}`} ${reason}. Nothing was sealed.`,
    );
    this.pointer = pointer;
    this.#reason = reason;
  }

  /** The same fault, with the place of the value. */
  at(pointer: string): SealingRefusedError {
    return new SealingRefusedError(this.#reason, pointer);
  }
}

/** `KEYS_NOT_PREPARED`: the keys of a person were not loaded before they were needed. */
export class KeysNotPreparedError extends SealedOutboxError {
  constructor(message: string) {
    super('KEYS_NOT_PREPARED', message);
  }
}

/** `SEALED_VALUE_USED`: a program printed, compared or serialised a value that it cannot read. */
export class SealedValueUsedError extends SealedOutboxError {
  constructor() {
    super(
      'SEALED_VALUE_USED',
      'A sealed value was used as if it were open. Ask isSealed() first; sealedText() gives its text to pass it on.',
    );
  }
}
