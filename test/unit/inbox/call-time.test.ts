import { describe, expect, it } from 'vitest';
import { type CallTimes, startCallTime } from '../../../shared/inbox/call-time.ts';

/** An invocation whose time is moved by hand. */
function invocation(remaining: number) {
  let left = remaining;
  return {
    remainingMs: () => left,
    pass: (ms: number) => {
      left -= ms;
    },
  };
}
const TIMES: CallTimes = { timeoutMs: 4000, needsMs: 1000 };
const OUT_OF_TIME = expect.objectContaining({ code: 'OUT_OF_TIME' });
const OPTIONS = expect.objectContaining({ code: 'CALL_OPTIONS' });

describe('the time of a call', () => {
  it('is leased for longer than anything may take that is done under it', () => {
    for (const remaining of [1600, 3000, 9000, 900_000]) {
      const { remainingMs } = invocation(remaining);
      for (const withLookup of [false, true]) {
        const { leaseMs } = startCallTime(remainingMs, TIMES, withLookup);
        expect(leaseMs).toBeGreaterThanOrEqual(Math.min(remaining - 500, withLookup ? 8000 : 4000) + 5000);
      }
    }
  });

  it('is not begun where the invocation ends before it could end, with time to write down the answer', () => {
    expect(() => startCallTime(() => 1499, TIMES, false)).toThrow(OUT_OF_TIME);
    expect(() => startCallTime(() => 1500, TIMES, false)).not.toThrow();
    expect(() => startCallTime(() => 0, TIMES, true)).toThrow(OUT_OF_TIME);
  });

  it('that a look-up has used up is not begun again', () => {
    const { remainingMs, pass } = invocation(100_000);
    const time = startCallTime(remainingMs, TIMES, true);
    time.signal();
    pass(7000);
    expect(() => time.signal()).not.toThrow();
    pass(1);
    expect(() => time.signal()).toThrow(OUT_OF_TIME);
  });

  it('is over for a process that was frozen past the end of its lease', () => {
    const { remainingMs, pass } = invocation(10_000);
    const time = startCallTime(remainingMs, TIMES, false);
    pass(time.leaseMs);
    expect(() => time.signal()).toThrow(OUT_OF_TIME);
  });

  it('says after how long a call that was given up cannot happen any more', () => {
    const time = startCallTime(() => 10_000, { ...TIMES, happensWithinMs: 3000 }, false);
    expect([2999, 3000].map((ms) => time.isSettled(ms))).toEqual([false, true]);
  });

  it('cuts off what is under way when it has taken too long, or when the invocation ends', async () => {
    const asked: number[] = [];
    const abortAfter = (ms: number) => {
      asked.push(ms);
      return AbortSignal.abort();
    };
    startCallTime(() => 100_000, TIMES, true, abortAfter).signal();
    startCallTime(() => 2_500, TIMES, true, abortAfter).signal();
    expect(asked).toEqual([4000, 2000]);

    const signal = startCallTime(() => 10_000, { timeoutMs: 1, needsMs: 1 }, false).signal();
    await new Promise((aborted) => signal.addEventListener('abort', aborted));
    expect(signal.reason).toMatchObject({ name: 'TimeoutError' });
  });

  it.each<CallTimes>([
    { timeoutMs: 0 },
    { timeoutMs: Number.NaN },
    { timeoutMs: 900_001 },
    { needsMs: -1 },
    { happensWithinMs: Number.POSITIVE_INFINITY },
    { timeoutMs: 500, needsMs: 501 },
  ])('is refused where it is none: %j', (times) => {
    expect(() => startCallTime(() => 10_000, times, false)).toThrow(OPTIONS);
  });
});
