import { describe, expect, it } from 'vitest';
import { RESTED, RUN, restMs } from '../../../shared/inbox/rest.ts';

describe('restMs', () => {
  it('lets a small gap close at once', () => {
    expect(restMs(RESTED)).toBe(0);
    expect(restMs({ events: RUN - 1, tookMs: 80 })).toBe(0);
  });

  it('is as long as the work before it', () => {
    expect(restMs({ events: RUN, tookMs: 12.5 })).toBe(12.5);
    expect(restMs({ events: 2 * RUN, tookMs: 40 })).toBe(40);
  });

  it('is half a second at most, however long the work waited for others', () => {
    expect(restMs({ events: RUN, tookMs: 30_000 })).toBe(500);
  });
});
