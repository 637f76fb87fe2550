/** How many messages may leave: `perSecond` of them on average, and never many at once after a silence. */
export interface Pace {
  readonly perSecond: number;
  saved: number;
  /** Monotonic milliseconds of the last look. */
  at: number;
}

/** What is saved up during a silence: the messages of so many seconds, one at least. */
const BURST_SECONDS = 0.5;

export function pace(perSecond: number, now: number): Pace {
  return { perSecond, saved: 0, at: now };
}

/** How many may leave now, where `share` of the whole pace is this lane's. */
export function room(it: Pace, now: number, share: number): number {
  const perSecond = it.perSecond * share;
  it.saved = Math.min(it.saved + (perSecond * (now - it.at)) / 1000, Math.max(1, perSecond * BURST_SECONDS));
  it.at = now;
  return Math.floor(it.saved);
}

export function spend(it: Pace, messages: number): void {
  it.saved -= messages;
}
