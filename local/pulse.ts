export interface Pulse {
  stop(): Promise<void>;
}

/** Calls `beat` now and then at the same distance, never twice at once, whether or not it fails, until stopped. */
export function startPulse(beat: () => Promise<void>, everyMs: number): Pulse {
  let running: Promise<void> | undefined;
  const once = (): void => {
    running ??= beat()
      .catch(() => {}) // what is missed shows as a missing measurement, which is what the alarms look for
      .finally(() => (running = undefined));
  };
  once();
  const timer = setInterval(once, everyMs);
  return {
    async stop() {
      clearInterval(timer);
      await running;
    },
  };
}
