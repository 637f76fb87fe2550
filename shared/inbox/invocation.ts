import type pg from 'pg';
import type { Connections } from '../database/index.ts';
import { OutOfTimeError } from './errors.ts';

/** The part of Lambda's context that tells the time. */
export interface Deadline {
  getRemainingTimeInMillis(): number;
}

export interface TimeMargins {
  /** No message is started with less time left than this. Milliseconds. */
  readonly startMs: number;
  /** What still runs with only this much left is abandoned, so that the finished rest can be reported. Milliseconds. */
  readonly stopMs: number;
}

/**
 * One invocation of the function: its time, and the connections that it holds.
 *
 * An invocation can stop to exist while one of its handlers waits: its time runs out, or the sandbox is frozen and thawed
 * for the next one. The connection that the handler holds is then in the middle of a transaction and occupies a place in
 * the pool. `abandon` throws such connections away; the server rolls back, and the retry finds no trace.
 */
export interface Invocation extends Connections {
  /** Whether there is time to start another message, now or in so many milliseconds. */
  mayStart(inMs?: number): boolean;
  /** Milliseconds until its end. */
  remainingMs(): number;
  /** Milliseconds until it is abandoned; 0 when it is. */
  usableMs(): number;
  /** Whether its own deadline has passed, by the wall clock. */
  isOverdue(): boolean;
  /** Rejects with `OutOfTimeError` when the invocation is abandoned; never resolves. */
  readonly abandoned: Promise<never>;
  /** Discards every connection that is still held and refuses new ones. */
  abandon(): void;
  /** All messages are done. */
  finish(): void;
}

/** Begins an invocation. `finish` must be called at its end, or its timer keeps the process awake. */
export function startInvocation(pool: Connections, deadline: Deadline, margins: TimeMargins): Invocation {
  const held = new Set<pg.PoolClient>();
  let over = false;
  const { promise: abandoned, reject } = Promise.withResolvers<never>();
  abandoned.catch(() => {}); // an invocation that is abandoned while nobody waits is no unhandled rejection

  const abandon = (): void => {
    over = true;
    clearTimeout(timer);
    for (const client of held) client.release(true);
    reject(new OutOfTimeError());
  };

  // A function with a short time-out must still start something: the margins never take more than a quarter of its time.
  const quarter = deadline.getRemainingTimeInMillis() / 4;
  const startMs = Math.min(margins.startMs, quarter);
  const stopMs = Math.min(margins.stopMs, quarter);
  const timer = setTimeout(abandon, Math.max(0, deadline.getRemainingTimeInMillis() - stopMs));

  return {
    abandoned,
    abandon,
    mayStart: (inMs = 0) => !over && deadline.getRemainingTimeInMillis() - inMs > startMs,
    remainingMs: () => deadline.getRemainingTimeInMillis(),
    usableMs: () => (over ? 0 : Math.max(0, deadline.getRemainingTimeInMillis() - stopMs)),
    isOverdue: () => deadline.getRemainingTimeInMillis() <= 0,
    finish: () => clearTimeout(timer),
    connect: async () => {
      if (over) throw new OutOfTimeError();
      const client = await pool.connect();
      if (over) {
        client.release();
        throw new OutOfTimeError();
      }
      held.add(client);
      // A connection that is cut emits 'error' besides failing its statement; without a listener that ends the process.
      const onError = (): void => {};
      client.on('error', onError);
      // The pool sets `release` anew at each checkout and throws at a second call. Whoever abandons a connection cannot
      // know whether its holder wakes up again and gives it back too.
      const release = client.release.bind(client);
      client.release = (broken) => {
        if (!held.delete(client)) return;
        client.off('error', onError);
        release(broken);
      };
      return client;
    },
  };
}
