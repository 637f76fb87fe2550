import { beforeEach, describe, expect, it } from 'vitest';
import type { Queryable } from '../../shared/database/index.ts';
import { systemClock } from '../../shared/outbox/index.ts';
import { keepLeasing } from '../../shared/outbox/relay/keep-leasing.ts';
import { endLease, keepLease, type Lease, markBusy, markIdle, register } from '../../shared/outbox/relay/lease.ts';
import { testDatabase } from '../support/database.ts';
import { leaseCounts, passLeaseTime } from '../support/lease-clock.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const db = database.pool('sealed_relay');
const SECONDS = 30;
let started = 0;

beforeEach(async () => {
  await owner.query('truncate outbox.relay');
  await owner.query('update outbox.partition set lease_owner = null, lease_expires_at = null');
});

/** A relay as far as its lease goes: it looks when the test says so. */
async function relay(slot = `slot-${(started += 1)}`) {
  const owned = `00000000-0000-4000-8000-${String((started += 1)).padStart(12, '0')}`;
  const lease: Lease = await register(db, owned, slot, SECONDS, systemClock);
  return { lease, owner: owned, look: (through: Queryable = db) => keepLease(through, lease, systemClock) };
}

async function look(...relays: readonly { look(): Promise<void> }[]): Promise<void> {
  for (const one of relays) await one.look();
}

const idle = async (): Promise<number> => 64 - (await leaseCounts(owner)).reduce((sum, n) => sum + n, 0);

/** What each believes to hold, and that nobody else does. */
function heldApart(...relays: readonly { readonly lease: Lease }[]): number[] {
  const all = relays.flatMap(({ lease }) => [...lease.held.keys()]);
  expect(new Set(all).size).toBe(all.length);
  return relays.map(({ lease }) => lease.held.size);
}

describe('the shares of relays', () => {
  it('case 63: one joins one that holds all, one dies, one hangs: they even out, and nothing is idle for longer than a lease', async () => {
    const a = await relay();
    await look(a);
    expect(heldApart(a)).toEqual([64]);

    const b = await relay();
    await look(b, a, b);
    expect(heldApart(a, b)).toEqual([32, 32]);
    const c = await relay();
    await look(c, a, b, c);
    expect(heldApart(a, b, c)).toEqual([22, 21, 21]);

    // B dies: one lease later it is neither counted nor waited for.
    await passLeaseTime(owner, SECONDS + 1, b.owner);
    await look(a, c);
    expect(heldApart(a, c)).toEqual([32, 32]);
    expect(await idle()).toBe(0);

    // C hangs: as B, but it comes back, and finds that what it had is somebody else's.
    await passLeaseTime(owner, SECONDS + 1, c.owner);
    await look(a);
    expect(heldApart(a)).toEqual([64]);
    await look(c);
    expect(heldApart(a, c)).toEqual([64, 0]);
    await look(a, c);
    expect(heldApart(a, c)).toEqual([32, 32]);
    expect(await idle()).toBe(0);
  });

  it('like case 63: before its lease is over, nothing is taken from one that is only slow', async () => {
    const [a, b] = [await relay(), await relay()];
    await look(a, b, a, b);
    await passLeaseTime(owner, SECONDS - 2, a.owner);
    await look(b, b);
    expect(await leaseCounts(owner)).toEqual([32, 32]);
    await look(a);
    expect(heldApart(a, b)).toEqual([32, 32]);
  });

  it('like case 63: what is in flight stays until it is answered, and goes to the new one then', async () => {
    const a = await relay();
    await look(a);
    markBusy(a.lease, a.lease.held.keys());
    const b = await relay();
    await look(a, b);
    expect(heldApart(a, b)).toEqual([64, 0]);
    markIdle(a.lease, [63, 62]);
    await look(a, b);
    expect(heldApart(a, b)).toEqual([62, 2]);
    markIdle(
      a.lease,
      Array.from({ length: 62 }, (_, n) => n),
    );
    await look(a, b);
    expect(heldApart(a, b)).toEqual([32, 32]);
  });

  it('like case 63: one that ends leaves its part at once, and the next run of its slot gets no more than that', async () => {
    const [a, b] = [await relay('minute'), await relay('spare')];
    await look(a, b, a, b);
    await endLease(db, a.lease);
    await look(b);
    expect(heldApart(b)).toEqual([64]);
    const next = await relay('minute');
    await look(next, b, next);
    expect(heldApart(next, b)).toEqual([32, 32]);
  });

  it('like case 63: one that stands still for longer than its lease between two statements does not take that for a hand-over', async () => {
    const a = await relay();
    await look(a);
    const still: Queryable = {
      async query(text, values) {
        const result = await db.query(text, values as unknown[]);
        if (text.includes('set seen_at')) await passLeaseTime(owner, SECONDS + 1);
        return result;
      },
    };
    await a.look(still);
    expect(a.lease.share).toBe(64);
    expect(heldApart(a)).toEqual([64]);
  });

  it('like case 63: a relay that holds all notices another one within a second, and renews no sooner than it must', async () => {
    let now = 0;
    const renewals: number[] = [];
    const shares: [at: number, share: number][] = [];
    const counted: Queryable = {
      query(text, values) {
        if (text.includes('update outbox.partition') && text.includes('returning number')) renewals.push(now);
        return db.query(text, values as unknown[]);
      },
    };
    const clock = { monotonic: () => now, wall: () => now, sleep: () => Promise.resolve() };
    const lease = await register(db, '00000000-0000-4000-8000-0000000000aa', 'slot-aa', SECONDS, clock);
    await keepLease(db, lease, clock);
    const renewedBefore = (ms: number): number => renewals.filter((at) => at < ms).length;
    await keepLeasing(counted, lease, {
      clock: {
        ...clock,
        sleep: async (ms) => {
          now += ms;
          if (now === 12_000) await relay();
          shares.push([now, lease.share]);
        },
      },
      renewed: () => Promise.resolve(),
      handedOver: () => {},
      isOver: () => now >= 14_000,
      signal: new AbortController().signal,
    });
    expect(shares.findLast(([, share]) => share === 64)).toEqual([12_000, 64]);
    expect(lease.share).toBe(32);
    expect([renewedBefore(10_000), renewedBefore(12_000)]).toEqual([0, 1]);
  });
});
