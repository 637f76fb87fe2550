import type { Clock } from './clock.ts';

/** Lets a loop wait until something happened or a time has come, whichever is first. */
export interface Bell {
  ring(): void;
  /** Resolves at the next ring (at once when it rang since the last wait), after `ms`, or when `signal` aborts. */
  wait(ms: number, signal: AbortSignal): Promise<void>;
}

export function bell(clock: Clock): Bell {
  let rang = false;
  let waiter: AbortController | undefined;
  return {
    ring() {
      rang = true;
      waiter?.abort();
    },
    async wait(ms, signal) {
      if (!rang && !signal.aborted) {
        waiter = new AbortController();
        const abort = (): void => waiter?.abort();
        signal.addEventListener('abort', abort, { once: true });
        await clock.sleep(Math.max(1, ms), waiter.signal);
        signal.removeEventListener('abort', abort);
        waiter = undefined;
      }
      rang = false;
    },
  };
}
