import { describe, expect, it } from 'vitest';
import { RESTED, RUN, restMs } from '../../../shared/inbox/rest.ts';

describe('restMs', () => {
  it('lets a small gap close at once', () => {
    expect(restMs(RESTED)).toBe(0);
    expect(restMs({ events: RUN - 1, tookMs: 80 })).toBe(0);
  });

  it('is as long as the work before it', () => {
    expect(restMs({ events: RUN, tookMs: 25 })).toBe(25);
    expect(restMs({ events: 2 * RUN, tookMs: 60 })).toBe(60);
  });

  it('is longer where a connection drains more than 600 events a second, and twice as long as the work at most', () => {
    expect(restMs({ events: 30, tookMs: 20 })).toBe(30);
    expect(restMs({ events: 60, tookMs: 40 })).toBe(60);
    expect(restMs({ events: 30, tookMs: 10 })).toBe(20);
  });

  it('is half a second at most, however long the work waited for others', () => {
    expect(restMs({ events: RUN, tookMs: 30_000 })).toBe(500);
  });
});
