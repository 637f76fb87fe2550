import { setTimeout as delay } from 'node:timers/promises';

/** Looks again and again until there is something, and fails with what was awaited when there is nothing in time. */
export async function until<T>(
  what: string,
  look: () => Promise<T | undefined> | T | undefined,
  withinMs: number,
): Promise<T> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`not within ${withinMs / 1000} s: ${what}`);
    await delay(50);
  }
}
