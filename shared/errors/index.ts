/**
 * The one base of every error that this library throws.
 *
 * `code` is stable: programs branch on it, documents list it. `message` says what happened, what was left undone and what
 * to do next. Neither ever carries a payload value, a key or a connection string.
 */
export class SealedOutboxError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}
