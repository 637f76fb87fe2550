import { backoff } from './backoff.ts';

/** Whether a destination is worth calling. Each destination has its own, so one that is away does not stop the others. */
export interface Circuit {
  /** Outages in a row. */
  failures: number;
  /** Monotonic milliseconds until which nothing is sent; past it, a few messages probe. */
  openUntil: number;
  /** When a message last passed; monotonic milliseconds. */
  passedAt: number;
}

export function closedCircuit(): Circuit {
  return { failures: 0, openUntil: 0, passedAt: Number.NEGATIVE_INFINITY };
}

export function passed(circuit: Circuit, now: number): void {
  circuit.failures = 0;
  circuit.openUntil = 0;
  circuit.passedAt = now;
}

/** Waits half a second, then longer, up to 30 s; never shorter than half of that, so that an outage costs no hot loop. */
export function failed(circuit: Circuit, now: number, random: () => number): void {
  // Several calls in flight fail of one outage: that counts once.
  if (circuit.openUntil > now) return;
  circuit.failures += 1;
  const half = Math.min(30_000, 500 * 2 ** Math.min(circuit.failures - 1, 10)) / 2;
  circuit.openUntil = now + half + backoff(1, half, half, random);
}

/** Milliseconds until the next try; 0 when closed. */
export function waitFor(circuit: Circuit, now: number): number {
  return Math.max(0, circuit.openUntil - now);
}

export function isProbing(circuit: Circuit): boolean {
  return circuit.failures > 0;
}
