import { EventEmitter } from 'node:events';
import type pg from 'pg';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { startInvocation } from '../../../shared/inbox/invocation.ts';

const MARGINS = { startMs: 3_000, stopMs: 500 };

/** A pool that counts how its connections are given back. */
function fakePool() {
  const released: unknown[] = [];
  const connect = async (): Promise<pg.PoolClient> =>
    Object.assign(new EventEmitter(), {
      release: (broken?: boolean) => void released.push(broken),
    }) as unknown as pg.PoolClient;
  return { released, connect };
}

/** Lambda's deadline on vitest's moved clock. */
function deadlineIn(milliseconds: number) {
  const end = Date.now() + milliseconds;
  return { getRemainingTimeInMillis: () => end - Date.now() };
}

describe('startInvocation', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it('lets messages start until the margin', async () => {
    const invocation = startInvocation(fakePool(), deadlineIn(30_000), MARGINS);
    await vi.advanceTimersByTimeAsync(26_999);
    expect(invocation.mayStart()).toBe(true);
    expect(invocation.mayStart(1)).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(invocation.mayStart()).toBe(false);
    invocation.finish();
    expect(vi.getTimerCount()).toBe(0);
  });

  it('says how much of its time can be used: until it is abandoned, and nothing after that', async () => {
    const invocation = startInvocation(fakePool(), deadlineIn(30_000), MARGINS);
    expect(invocation.usableMs()).toBe(29_500);
    await vi.advanceTimersByTimeAsync(29_499);
    expect(invocation.usableMs()).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(invocation.usableMs()).toBe(0);
    const overdue = startInvocation(fakePool(), deadlineIn(30_000), MARGINS);
    overdue.abandon();
    expect(overdue.usableMs()).toBe(0);
  });

  it('discards what is still held shortly before the end, once, and refuses more', async () => {
    const pool = fakePool();
    const invocation = startInvocation(pool, deadlineIn(30_000), MARGINS);
    const given = await invocation.connect();
    given.release();
    const held = await invocation.connect();
    const abandoned = invocation.abandoned.catch((error: unknown) => error);
    await vi.advanceTimersByTimeAsync(29_500);
    expect(await abandoned).toMatchObject({ code: 'OUT_OF_TIME' });
    expect(pool.released).toEqual([undefined, true]);
    held.release();
    expect(pool.released).toHaveLength(2);
    await expect(invocation.connect()).rejects.toMatchObject({ code: 'OUT_OF_TIME' });
    expect(invocation.mayStart()).toBe(false);
  });

  it('survives that a connection which it holds is cut, whoever waits for it, and leaves no listener on those that it gives back', async () => {
    const invocation = startInvocation(fakePool(), deadlineIn(30_000), MARGINS);
    const client = await invocation.connect();
    expect(() => client.emit('error', new Error('Connection terminated unexpectedly'))).not.toThrow();
    client.release();
    expect(client.listenerCount('error')).toBe(0);
    const held = await invocation.connect();
    invocation.abandon();
    expect(held.listenerCount('error')).toBe(0);
  });

  it('gives back unused a connection that comes when the invocation is over', async () => {
    const pool = fakePool();
    const arriving = Promise.withResolvers<pg.PoolClient>();
    const invocation = startInvocation({ connect: () => arriving.promise }, deadlineIn(30_000), MARGINS);
    const late = invocation.connect();
    invocation.abandon();
    arriving.resolve(await pool.connect());
    await expect(late).rejects.toMatchObject({ code: 'OUT_OF_TIME' });
    expect(pool.released).toEqual([undefined]);
  });

  it('starts something even in a function whose whole time is shorter than the margins', () => {
    const invocation = startInvocation(fakePool(), deadlineIn(1_000), MARGINS);
    expect(invocation.mayStart()).toBe(true);
    vi.advanceTimersByTime(750);
    expect(invocation.mayStart()).toBe(false);
    invocation.finish();
  });

  it('is overdue by the wall clock, although no timer has run', () => {
    const invocation = startInvocation(fakePool(), deadlineIn(30_000), MARGINS);
    expect(invocation.isOverdue()).toBe(false);
    vi.setSystemTime(Date.now() + 30_000);
    expect(invocation.isOverdue()).toBe(true);
    invocation.finish();
  });
});
