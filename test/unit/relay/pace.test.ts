import { describe, expect, it } from 'vitest';
import { pace, room, spend } from '../../../shared/outbox/relay/pace.ts';

/** Messages that leave in `seconds`, when someone looks every `everyMs` and takes all there is room for. */
function sent(perSecond: number, seconds: number, everyMs: number, share = 1): number {
  const it = pace(perSecond, 0);
  let total = 0;
  for (let now = everyMs; now <= seconds * 1000; now += everyMs) {
    const messages = room(it, now, share);
    spend(it, messages);
    total += messages;
  }
  return total;
}

describe('a pace', () => {
  it.each([1, 10, 333, 5000])('of %i a second lets so many go, however often it is asked', (perSecond) => {
    for (const everyMs of [1, 8, 250]) {
      expect(Math.abs(sent(perSecond, 20, everyMs) - perSecond * 20)).toBeLessThanOrEqual(1);
    }
  });

  it('is shared by the relays that work at it', () => {
    expect(Math.abs(sent(640, 10, 10, 16 / 64) - 1600)).toBeLessThanOrEqual(1);
  });

  it('saves up half a second at most', () => {
    expect(room(pace(100, 0), 60_000, 1)).toBe(50);
  });

  it('lets one go in the end, also where that takes a minute', () => {
    expect(sent(1, 640, 250, 1 / 64)).toBe(10);
  });
});
