import { SealedOutboxError } from '../../errors/index.ts';

/**
 * - `ERASURE_DECLARATION`: classes, columns, a delay or a person are not declared as they must be. Nothing was asked for or erased;
 * - `ERASURE_CLASS_UNDECLARED`: the vault has keys of this person in a class that the program does not know. Nothing was asked for or erased;
 * - `ERASURE_NOT_FINISHED`: it was asked for and is recorded; what could not be done now (its `cause`) is done by the janitor;
 * - `ERASURE_LOG_DAMAGED`: the log of erasures has a gap, an entry that cannot be read, or is not the one of this database.
 */
export type ErasureErrorCode =
  | 'ERASURE_DECLARATION'
  | 'ERASURE_CLASS_UNDECLARED'
  | 'ERASURE_NOT_FINISHED'
  | 'ERASURE_LOG_DAMAGED';

/** Erasing a person did not do all that was asked. The message names classes, tables and numbers of the log, never a person. */
export class ErasureError extends SealedOutboxError {
  declare readonly code: ErasureErrorCode;

  constructor(code: ErasureErrorCode, message: string, options?: ErrorOptions) {
    super(code, message, options);
  }
}
