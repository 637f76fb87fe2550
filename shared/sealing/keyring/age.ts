/** Time as the keyring needs it. Tests hand in one that they move. */
export interface KeyringClock {
  /** Milliseconds that never go back. They may stand still while a sandbox is frozen. */
  monotonic(): number;
  /** Milliseconds since 1970. May jump. */
  wall(): number;
}

export const systemClock: KeyringClock = { monotonic: () => performance.now(), wall: () => Date.now() };

export interface Moment {
  readonly monotonic: number;
  readonly wall: number;
}

export const MINUTE = 60_000;

export function momentOf(clock: KeyringClock): Moment {
  return { monotonic: clock.monotonic(), wall: clock.wall() };
}

/** Milliseconds since then by the clock that says more: a frozen or stepped one must not let a key live longer. */
export function ageOf(clock: KeyringClock, since: Moment): number {
  return Math.max(clock.monotonic() - since.monotonic, clock.wall() - since.wall);
}
