/** Time as the relay needs it. Tests hand in one that they move. */
export interface Clock {
  /** Milliseconds that never go back. They may stand still while a sandbox is frozen. */
  monotonic(): number;
  /** Milliseconds since 1970. May jump. */
  wall(): number;
  /** Resolves after `ms`, or at once when `signal` aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  monotonic: () => performance.now(),
  wall: () => Date.now(),
  sleep: (ms, signal) =>
    new Promise((resolve) => {
      if (signal?.aborted === true) return resolve();
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal?.addEventListener('abort', done, { once: true });
    }),
};

/** A moment by both clocks, and how long ago it was by the worse of them: a frozen or stepped clock must not lengthen a lease. */
export interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

export function moment(clock: Clock): Moment {
  return { monotonic: clock.monotonic(), wall: clock.wall() };
}

export function elapsed(clock: Clock, since: Moment): number {
  return Math.max(clock.monotonic() - since.monotonic, clock.wall() - since.wall);
}
