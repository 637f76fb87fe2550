import type { Clock } from './clock.ts';

/** Lets a loop wait until something happened or a time has come, whichever is first. */
export interface Bell {
  ring(): void;
  /** Resolves at the next ring (at once when it rang since the last wait), after `ms` at the latest, or when the signal aborts. */
  wait(ms: number): Promise<void>;
  /** Ends what it waits for. */
  silence(): void;
}

/**
 * It rings hundreds of times a second: a timer of its own for each wait, with what ends it, took a twentieth of the relay's CPU. So one
 * goes on from wait to wait, and is replaced only by an earlier one.
 */
export function bell(clock: Clock, signal: AbortSignal): Bell {
  let rang = false;
  let wake = (): void => {};
  let alarm: { readonly at: number; readonly off: AbortController } | undefined;
  const ring = (): void => {
    rang = true;
    wake();
  };
  const setAlarm = (at: number, ms: number): void => {
    alarm?.off.abort();
    const it = { at, off: new AbortController() };
    alarm = it;
    void clock.sleep(ms, it.off.signal).then(() => {
      if (alarm !== it) return;
      alarm = undefined;
      ring();
    });
  };
  signal.addEventListener('abort', ring, { once: true });
  return {
    ring,
    async wait(ms) {
      if (!rang && !signal.aborted) {
        const at = clock.monotonic() + Math.max(1, ms);
        if (alarm === undefined || alarm.at > at) setAlarm(at, Math.max(1, ms));
        await new Promise<void>((resolve) => (wake = resolve));
      }
      rang = false;
    },
    silence() {
      signal.removeEventListener('abort', ring);
      alarm?.off.abort();
      alarm = undefined;
    },
  };
}
