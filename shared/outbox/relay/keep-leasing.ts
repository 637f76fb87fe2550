import type { Queryable } from '../../database/index.ts';
import { type Clock, elapsed } from './clock.ts';
import { fairShare, keepLease, type Lease } from './lease.ts';

export interface Keeping {
  readonly clock: Clock;
  /** After each renewal that was due. */
  renewed(): Promise<void>;
  /** A younger run of the slot lives. */
  handedOver(): void;
  isOver(): boolean;
  readonly signal: AbortSignal;
}

/** How often a relay looks whether another one came or went, and whether what it lacks of its share is free. Milliseconds. */
const LOOK_MS = { settled: 1_000, unsettled: 500 };

/**
 * Keeps the lease until the relay is over: renews it on a timer, a third of it, work or not; at once when another relay came or went; and
 * while partitions of its share are still somebody else's.
 */
export async function keepLeasing(db: Queryable, lease: Lease, keeping: Keeping): Promise<void> {
  const { clock, signal } = keeping;
  while (!signal.aborted && !keeping.isOver()) {
    const third = (lease.seconds * 1000) / 3;
    const settled = lease.held.size === lease.share;
    const left = Math.max(0, third - elapsed(clock, lease.renewedAt));
    await clock.sleep(Math.min(left, settled ? LOOK_MS.settled : LOOK_MS.unsettled), signal);
    if (signal.aborted) return;
    const due = elapsed(clock, lease.renewedAt) >= third;
    if (settled && !due && (await fairShare(db, lease)) === lease.share) continue;
    await keepLease(db, lease, clock);
    if (lease.share === 0) keeping.handedOver();
    if (due) await keeping.renewed();
  }
}
