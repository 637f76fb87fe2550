import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { backoff } from '../../../shared/outbox/relay/backoff.ts';

const attempts = fc.integer({ min: 1, max: 100_000 });
const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

describe('backoff', () => {
  it('stays between nothing and the doubled wait, and below the cap', () => {
    fc.assert(
      fc.property(attempts, random, (attempt, value) => {
        const wait = backoff(attempt, 1_000, 300_000, () => value);
        expect(wait).toBeGreaterThanOrEqual(0);
        expect(wait).toBeLessThanOrEqual(Math.min(300_000, 1_000 * 2 ** (attempt - 1)));
        expect(Number.isSafeInteger(wait)).toBe(true);
      }),
    );
  });

  it('uses the whole range, so that what failed together does not come back together', () => {
    expect(backoff(4, 1_000, 300_000, () => 0)).toBe(0);
    expect(backoff(4, 1_000, 300_000, () => 0.25)).toBe(2_000);
    expect(backoff(4, 1_000, 300_000, () => 0.999_999)).toBe(8_000);
  });

  it('doubles from the base up to the cap', () => {
    const longest = [1, 2, 3, 8, 9, 10, 12].map((attempt) => backoff(attempt, 1_000, 300_000, () => 1));
    expect(longest).toEqual([1_000, 2_000, 4_000, 128_000, 256_000, 300_000, 300_000]);
  });
});
