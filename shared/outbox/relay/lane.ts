import { emptyBacklog, keepPartitions, wakeDue } from './backlog.ts';
import { bell } from './bell.ts';
import { waitFor } from './circuit.ts';
import { noFloors } from './floors.ts';
import { startCalls } from './lane-calls.ts';
import { mayScan, nextScan, POLL_MS, startScan } from './lane-scan.ts';
import { SETTLE, startSettlement } from './lane-settlement.ts';
import type { Lane, LaneContext } from './lane-state.ts';
import { workablePartitions } from './lease.ts';
import { LIVE } from './work.ts';

/**
 * One destination's work. Three things go on at once: calls to the destination, one scan for more, one settlement of what was
 * answered. Lanes share the connection and the lease, and nothing else: a destination that is away does not stop the others.
 */
export async function runLane(context: LaneContext): Promise<void> {
  const lane: Lane = {
    work: LIVE,
    ...context,
    bell: bell(context.clock, context.signal),
    backlog: emptyBacklog(),
    calls: new Set(),
    flyingBytes: 0,
    cursor: context.start(),
    floors: noFloors(),
    tokens: new Map(),
    scans: 0,
    scanning: undefined,
    scanAt: 0,
    pollMs: POLL_MS.least,
    exhausted: false,
    parking: new Map(),
    done: [],
    doneSince: 0,
    writing: undefined,
    error: undefined,
  };
  try {
    while (!lane.isOver() && !lane.signal.aborted && lane.error === undefined) {
      followLease(lane);
      wakeDue(lane.backlog, lane.clock.monotonic());
      startScan(lane);
      startCalls(lane);
      startSettlement(lane, false);
      if (lane.drain && isDrained(lane)) break;
      await lane.bell.wait(nextThing(lane));
    }
  } finally {
    // Whatever the reason: what is in flight is answered and written before the partitions are given back.
    await Promise.allSettled(lane.calls);
    await lane.scanning;
    await lane.writing;
    startSettlement(lane, true);
    await lane.writing;
    lane.bell.silence();
  }
  if (lane.error !== undefined) throw lane.error;
}

function isDrained(lane: Lane): boolean {
  const { backlog, circuit, clock } = lane;
  const idle =
    lane.calls.size === 0 && lane.scanning === undefined && lane.writing === undefined && lane.done.length === 0;
  if (!idle) return false;
  if (waitFor(circuit, clock.monotonic()) > 0) return true;
  const complete = lane.lease.held.size >= lane.lease.share;
  return complete && lane.exhausted && backlog.ready.size + backlog.wanted.size + lane.parking.size === 0;
}

/** Milliseconds until something is to be done that no bell announces. */
function nextThing(lane: Lane): number {
  const now = lane.clock.monotonic();
  const times = [now + POLL_MS.most];
  if (mayScan(lane)) times.push(nextScan(lane));
  if (lane.done.length > 0 && lane.writing === undefined) times.push(lane.doneSince + SETTLE.ms);
  if (lane.circuit.openUntil > now) times.push(lane.circuit.openUntil);
  return Math.max(0, Math.min(...times) - now);
}

/**
 * Follows the lease. What is in memory of a partition that was lost is dropped, even when it came back meanwhile: under another token
 * somebody else may have published, parked or skipped what stands here. With a partition that is new the walk begins anew; what is still
 * in memory is met again and recognised.
 */
function followLease(lane: Lane): void {
  const { lease, backlog, tokens } = lane;
  const workable = workablePartitions(lease);
  const same =
    workable.length === tokens.size && workable.every((number) => tokens.get(number) === lease.held.get(number));
  if (same) return;
  lane.tokens = new Map(workable.map((number) => [number, lease.held.get(number) ?? '']));
  keepPartitions(backlog, new Set(workable.filter((number) => tokens.get(number) === lane.tokens.get(number))));
  if (workable.every((number) => tokens.get(number) === lane.tokens.get(number))) return;
  lane.cursor = lane.start();
  lane.scanAt = 0;
}
