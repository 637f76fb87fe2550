import { SealedOutboxError } from '../../errors/index.ts';
import type { Clock } from './clock.ts';

/** What a database is given to answer. */
export interface Patience {
  /**
   * Waits for one thing, and rejects when it has not come in time; from then on everything rejects, at once. What is given up may still be
   * done: whoever asked must be able to ask again.
   */
  wait<T>(ask: () => Promise<T>): Promise<T>;
  /** Ends what looks at the time. */
  end(): void;
}

/** Left for one answer once the relay was told to stop: container platforms kill after 10 to 30 seconds. Milliseconds. */
const STOPPING_MS = 5_000;
/** A timer that comes later than this was held up by a process that stood still: the answer may lie there unread. Milliseconds. */
const FROZEN_MS = 1_000;

/** The database gave no answer. Nothing is charged: what was not settled is fetched again on another connection. */
class SilentDatabaseError extends SealedOutboxError {
  constructor(ms: number) {
    super(
      'DATABASE_SILENT',
      `The database gave no answer for ${Math.round(ms / 1000)} seconds. What was under way is not settled, and is fetched again. ` +
        'If it comes back again and again, see what the statements of the relay wait for in pg_stat_activity.',
    );
  }
}

/**
 * For one connection, on which one thing is waited for at a time. A peer that vanished sends no reset: the system would repeat what was sent
 * for a quarter of an hour before it says so.
 *
 * One timer goes on from answer to answer: statements are hundreds a second, and one for each would cost the relay more than they are worth.
 */
export function patience(clock: Clock, ms: number, stopping?: AbortSignal): Patience {
  let limit = stopping?.aborted === true ? STOPPING_MS : ms;
  let asked: { since: number; readonly giveUp: (error: Error) => void } | undefined;
  let lost: Error | undefined;
  const over = new AbortController();
  let timer = new AbortController();

  const watch = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const { signal } = timer;
      const now = clock.monotonic();
      const left = asked === undefined ? limit : asked.since + limit - now;
      if (left <= 0) break;
      await clock.sleep(left, signal);
      if (asked !== undefined && clock.monotonic() > now + left + FROZEN_MS) asked.since = clock.monotonic();
    }
    if (over.signal.aborted) return;
    lost = new SilentDatabaseError(limit);
    asked?.giveUp(lost);
  };
  const hurry = (): void => {
    limit = STOPPING_MS;
    if (asked !== undefined) asked.since = clock.monotonic();
    timer.abort();
    timer = new AbortController();
  };
  stopping?.addEventListener('abort', hurry, { once: true });
  void watch();

  return {
    wait(ask) {
      if (lost !== undefined) return Promise.reject(lost);
      return new Promise((resolve, reject) => {
        const mine = { since: clock.monotonic(), giveUp: reject };
        asked = mine;
        const answered = (): void => {
          if (asked === mine) asked = undefined;
        };
        ask().finally(answered).then(resolve, reject);
      });
    },
    end() {
      over.abort();
      stopping?.removeEventListener('abort', hurry);
      timer.abort();
    },
  };
}
