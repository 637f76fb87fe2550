import { Socket } from 'node:net';

/** `ErrorResponse` in the protocol of PostgreSQL. A message is a byte of type, four of length, which counts itself, and the rest. */
const ERROR = 'E'.charCodeAt(0);

/**
 * A connection to PostgreSQL on which an error is read alone, and what the server says after it (in which state the transaction is, above all)
 * in a later turn of the event loop. That is how it comes whenever the two are sent in packets of their own, as the server does.
 */
export class LateReadySocket extends Socket {
  #unread = Buffer.alloc(0);
  #late = false;
  #queued: (Buffer | null)[] = [];

  override push(chunk: Buffer | null): boolean {
    if (this.#late) {
      this.#queued.push(chunk);
      return true;
    }
    if (chunk === null) return super.push(null);
    this.#unread = Buffer.concat([this.#unread, chunk]);
    const read = this.#unread.subarray(0, this.#endOfTurn());
    this.#unread = this.#unread.subarray(read.length);
    return read.length === 0 || super.push(read);
  }

  /** Behind the last whole message, or behind the first error. */
  #endOfTurn(): number {
    let end = 0;
    while (!this.#late && end + 5 <= this.#unread.length) {
      const next = end + 1 + this.#unread.readUInt32BE(end + 1);
      if (next > this.#unread.length) break;
      if (this.#unread[end] === ERROR) {
        this.#late = true;
        setImmediate(() => this.#goOn());
      }
      end = next;
    }
    return end;
  }

  #goOn(): void {
    this.#late = false;
    const queued = this.#queued;
    this.#queued = [];
    for (const chunk of [Buffer.alloc(0), ...queued]) this.push(chunk);
  }
}
