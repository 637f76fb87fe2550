import type { Publisher } from './publisher.ts';

/** Stands for a destination that was taken out of the catalogue and of the relay's settings: whatever still waits for it is parked, and says why. */
export function unroutable(): Publisher {
  return {
    limits: { entries: 100, bytes: Number.POSITIVE_INFINITY, timeoutMs: 1_000 },
    preflight: async () => {},
    publish: async (messages) =>
      messages.map(() => ({
        ok: false,
        code: 'Unroutable',
        reason: 'the catalogue has this destination no more; list it again and redrive, or skip the event',
      })),
    close: () => {},
  };
}
