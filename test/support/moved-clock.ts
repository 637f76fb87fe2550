import type { Clock } from '../../shared/outbox/relay/clock.ts';

export interface MovedClock extends Clock {
  /** Lets time pass: both clocks move, and sleepers wake one after the other at the moment that is theirs. */
  advance(ms: number): Promise<void>;
  /** Steps the wall clock alone, as a time server or a thawed sandbox does. */
  stepWall(ms: number): void;
}

/** A clock that stands still until a test moves it. */
export function movedClock(): MovedClock {
  let monotonic = 1_000;
  let wall = Date.UTC(2030, 0, 1);
  const sleepers = new Set<{ at: number; wake: () => void }>();
  return {
    monotonic: () => monotonic,
    wall: () => wall,
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted === true) return resolve();
        const sleeper = {
          at: monotonic + ms,
          wake: () => {
            sleepers.delete(sleeper);
            signal?.removeEventListener('abort', sleeper.wake);
            resolve();
          },
        };
        sleepers.add(sleeper);
        signal?.addEventListener('abort', sleeper.wake, { once: true });
      }),
    async advance(ms) {
      const until = monotonic + ms;
      for (;;) {
        const next = [...sleepers].toSorted((a, b) => a.at - b.at)[0];
        const at = Math.min(next?.at ?? until, until);
        wall += at - monotonic;
        monotonic = at;
        if (next === undefined || next.at > until) break;
        next.wake();
        await turn();
      }
      await turn();
    },
    stepWall(ms) {
      wall += ms;
    },
  };
}

/** Lets everything run that is already able to: promises that are resolved, and what follows from them. */
export async function turn(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}
