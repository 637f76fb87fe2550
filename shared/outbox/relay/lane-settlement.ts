import { settling } from './backlog.ts';
import type { Found } from './delivery.ts';
import { applyParking, fail, type Lane } from './lane-state.ts';
import { markIdle } from './lease.ts';
import { settle } from './settle.ts';

/** Outcomes are written as soon as there are this many, or the oldest is this old. */
export const SETTLE = { entries: 500, ms: 50 };

/** Writes what was answered: when it is ripe, when nothing else is going on and something waits for it, or `atOnce`. */
export function startSettlement(lane: Lane, atOnce: boolean): void {
  const { backlog, db, lease, clock } = lane;
  if (lane.writing !== undefined || lane.done.length === 0) return;
  const ripe = lane.done.length >= SETTLE.entries || clock.monotonic() - lane.doneSince >= SETTLE.ms;
  // A settlement is a flush of the server's log, for which the next look on this connection waits: only where something waits for it.
  const awaited = lane.drain || backlog.wanted.size > 0;
  const calm = awaited && lane.calls.size === 0 && backlog.ready.size === 0;
  if (!atOnce && !ripe && !calm) return;
  const entries = lane.done;
  lane.done = [];
  // On one connection, a scan that is asked for from now on begins after this settlement has committed.
  settling(
    backlog,
    entries.map((entry) => entry.delivery.position),
    lane.scans + 1,
  );
  lane.writing = settle(db, lease.owner, entries)
    .then(async ({ unwritten, revived }) => {
      // Nobody else may know of these: they are looked up again, and what another relay made of them is seen then.
      for (const { delivery } of unwritten) backlog.wanted.add(keyOf(lane, delivery));
      const parked = entries.filter((entry) => entry.outcome.kind === 'parked');
      await applyParking(
        lane,
        [...parked, ...revived].map(({ delivery }) => delivery.key),
      );
      lane.settled(entries);
    })
    .catch((error: unknown) => {
      fail(lane, error);
    })
    .finally(() => {
      markIdle(
        lease,
        entries.map((entry) => entry.delivery.partition),
      );
      lane.writing = undefined;
      lane.bell.ring();
    });
}

/** The key under which the backlog holds a delivery. */
function keyOf({ destination }: Lane, delivery: Found): string {
  return destination.ordered ? delivery.key : delivery.position;
}
