import { describe, expect, it } from 'vitest';
import { elapsed, moment } from '../../../shared/outbox/relay/clock.ts';
import { type Lease, leaseLeft, markBusy, markIdle, workablePartitions } from '../../../shared/outbox/relay/lease.ts';
import { type MovedClock, movedClock } from '../../support/moved-clock.ts';

const leaseOf = (clock: MovedClock): Lease => ({
  owner: 'owner',
  slot: 'minute',
  seconds: 30,
  held: new Map(),
  surplus: new Set(),
  busy: new Map(),
  renewedAt: moment(clock),
  share: 64,
});

describe('what is left of a lease', () => {
  it('shrinks with time', async () => {
    const clock = movedClock();
    const lease = leaseOf(clock);
    expect(leaseLeft(lease, clock)).toBe(30_000);
    await clock.advance(12_000);
    expect(leaseLeft(lease, clock)).toBe(18_000);
  });

  it('shrinks by the wall clock where the monotonic one stood still: a frozen sandbox', () => {
    const clock = movedClock();
    const lease = leaseOf(clock);
    clock.stepWall(40_000);
    expect(leaseLeft(lease, clock)).toBe(-10_000);
  });

  it('is not lengthened by a wall clock that is set back', async () => {
    const clock = movedClock();
    const lease = leaseOf(clock);
    clock.stepWall(-3_600_000);
    await clock.advance(29_000);
    expect(leaseLeft(lease, clock)).toBe(1_000);
    expect(elapsed(clock, lease.renewedAt)).toBe(29_000);
  });
});

describe('the partitions of a lease', () => {
  it('are worked on unless they belong to the share of another', () => {
    const lease = leaseOf(movedClock());
    for (const number of [1, 2, 3]) lease.held.set(number, '7');
    lease.surplus.add(2);
    expect(workablePartitions(lease)).toEqual([1, 3]);
  });

  it('are busy until everybody who works on them is done', () => {
    const lease = leaseOf(movedClock());
    markBusy(lease, [1, 2]);
    markBusy(lease, [2]);
    markIdle(lease, [1, 2]);
    expect([...lease.busy.keys()]).toEqual([2]);
    markIdle(lease, [2]);
    expect(lease.busy.size).toBe(0);
  });
});
