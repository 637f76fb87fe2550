import { setTimeout as delay } from 'node:timers/promises';
import { type Clock, systemClock } from '../../shared/outbox/index.ts';
import type { Queryable } from '../../shared/database/index.ts';

export interface LeaseClock extends Clock {
  /** As if the process had stood still for this long: only the wall clock knows. */
  freeze(ms: number): void;
}

/** Waits from here on are those of the lease's timer: a lane never waits longer than 250 ms. Milliseconds. */
const TIMER = 500;

/**
 * The machine's clock, except for the timer that renews the lease: it comes every 150 ms, or (`standing`) never. So a test need not wait
 * for a third of a lease, and a relay can be one that no longer renews.
 */
export function leaseClock(timer: 'quick' | 'standing' = 'quick'): LeaseClock {
  let frozen = 0;
  return {
    monotonic: () => systemClock.monotonic(),
    wall: () => systemClock.wall() + frozen,
    sleep: (ms, signal) => {
      if (ms < TIMER) return systemClock.sleep(ms, signal);
      return systemClock.sleep(timer === 'quick' ? 150 : 2 ** 30, signal);
    },
    freeze(ms) {
      frozen += ms;
    },
  };
}

/** Lets time pass for what the database knows of leases and relays, of all or of one owner. Seconds. */
export async function passLeaseTime(owner: Queryable, seconds: number, of?: string): Promise<void> {
  await owner.query(
    `update outbox.partition set lease_expires_at = lease_expires_at - make_interval(secs => $1)
      where lease_owner = coalesce($2, lease_owner)`,
    [seconds, of ?? null],
  );
  await owner.query(
    `update outbox.relay set seen_at = seen_at - make_interval(secs => $1) where owner = coalesce($2, owner)`,
    [seconds, of ?? null],
  );
}

/** How many partitions each lease owner holds now, fewest first. */
export async function leaseCounts(owner: Queryable): Promise<number[]> {
  const { rows } = await owner.query(
    `select count(*)::integer as n from outbox.partition where lease_expires_at > clock_timestamp() group by lease_owner order by n`,
  );
  return rows.map(({ n }) => n);
}

/** Polls until it is so; fails after 30 seconds, for machines that are busy. */
export async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + 30_000;
  while (!(await isSo())) {
    if (Date.now() > deadline) throw new Error(`never came: ${what}`);
    await delay(20);
  }
}
