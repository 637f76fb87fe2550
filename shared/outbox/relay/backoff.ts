/**
 * Exponential backoff with full jitter: uniform between 0 and `min(cap, base × 2^(attempt − 1))`, as the AWS architecture blog
 * recommends, because equal waits let everything that failed together come back together. Milliseconds.
 */
export function backoff(attempt: number, baseMs: number, capMs: number, random: () => number): number {
  const ceiling = Math.min(capMs, baseMs * 2 ** Math.min(attempt - 1, 30));
  return Math.ceil(random() * ceiling);
}
