import { describe, expect, it } from 'vitest';
import { bell } from '../../../shared/outbox/relay/bell.ts';
import { movedClock, turn } from '../../support/moved-clock.ts';

function setUp() {
  const clock = movedClock();
  const stop = new AbortController();
  const it = bell(clock, stop.signal);
  /** Says whether a wait of `ms` is over. */
  const waiting = (ms: number): (() => boolean) => {
    let over = false;
    void it.wait(ms).then(() => (over = true));
    return () => over;
  };
  return { clock, stop, bell: it, waiting };
}

describe('the bell of a lane', () => {
  it('ends a wait when it rings', async () => {
    const { bell: rung, waiting } = setUp();
    const over = waiting(1000);
    await turn();
    expect(over()).toBe(false);
    rung.ring();
    await turn();
    expect(over()).toBe(true);
  });

  it('remembers one ring that nobody waited for, and no more', async () => {
    const { bell: rung, waiting } = setUp();
    rung.ring();
    rung.ring();
    const first = waiting(1000);
    await turn();
    expect(first()).toBe(true);
    const second = waiting(1000);
    await turn();
    expect(second()).toBe(false);
  });

  it('ends a wait when its time has come', async () => {
    const { clock, waiting } = setUp();
    const over = waiting(100);
    await clock.advance(99);
    expect(over()).toBe(false);
    await clock.advance(1);
    expect(over()).toBe(true);
  });

  it('ends a short wait in time though a longer one was begun before it', async () => {
    const { clock, bell: rung, waiting } = setUp();
    waiting(1000);
    rung.ring();
    await turn();
    const short = waiting(10);
    await clock.advance(10);
    expect(short()).toBe(true);
  });

  it('ends a long wait early at most, never late, after a shorter one that was rung out of', async () => {
    const { clock, bell: rung, waiting } = setUp();
    waiting(10);
    rung.ring();
    await turn();
    const long = waiting(100);
    await clock.advance(100);
    expect(long()).toBe(true);
  });

  it('ends a wait when the signal aborts, and every later one at once', async () => {
    const { stop, waiting } = setUp();
    const over = waiting(1000);
    stop.abort();
    await turn();
    expect(over()).toBe(true);
    const later = waiting(1000);
    await turn();
    expect(later()).toBe(true);
  });
});
