import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startPulse } from '../../../local/pulse.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('startPulse', () => {
  it('beats at once and then at its distance, failures or not, until it is stopped', async () => {
    const beat = vi.fn<() => Promise<void>>(async () => {
      throw new Error('away');
    });
    const pulse = startPulse(beat, 1_000);
    await vi.advanceTimersByTimeAsync(2_500);
    expect(beat).toHaveBeenCalledTimes(3);
    await pulse.stop();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(beat).toHaveBeenCalledTimes(3);
  });

  it('never beats twice at once, and its stop waits for the beat that runs', async () => {
    let finish = (): void => {};
    const beat = vi.fn<() => Promise<void>>(
      async () =>
        new Promise<void>((resolve) => {
          finish = resolve;
        }),
    );
    const pulse = startPulse(beat, 1_000);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(beat).toHaveBeenCalledTimes(1);
    let stopped = false;
    const stopping = pulse.stop().then(() => (stopped = true));
    await vi.advanceTimersByTimeAsync(0);
    expect(stopped).toBe(false);
    finish();
    await stopping;
  });
});
