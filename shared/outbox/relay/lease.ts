import type { Queryable } from '../../database/index.ts';
import { type Clock, elapsed, type Moment, moment } from './clock.ts';
import { type LiveRelay, shareOf } from './share.ts';

/**
 * What a relay holds. Leases bound how often something is sent twice; order does not rest on them, since no check
 * before a send can stop a process that freezes after it.
 */
export interface Lease {
  readonly owner: string;
  readonly slot: string;
  readonly seconds: number;
  /** Partitions held, with the token under which each was taken. */
  readonly held: Map<number, string>;
  /** Partitions that belong to somebody else's share: nothing new is fetched from them. */
  readonly surplus: Set<number>;
  /** How many deliveries of each partition are between fetch and settle. */
  readonly busy: Map<number, number>;
  /** From before the last renewal was asked for. */
  renewedAt: Moment;
  /** Partitions this relay should hold; 0 once a younger run of its slot lives. */
  share: number;
}

/** Enters the relay among those that live. Rows of relays that ended a day ago go. */
export async function register(
  db: Queryable,
  owner: string,
  slot: string,
  seconds: number,
  clock: Clock,
): Promise<Lease> {
  await db.query(`delete from outbox.relay where seen_at < clock_timestamp() - interval '1 day' and owner <> $1`, [
    owner,
  ]);
  await db.query(
    `insert into outbox.relay (owner, slot) values ($1, $2)
         on conflict (owner) do update set seen_at = clock_timestamp()`, // it lost its connection and comes back
    [owner, slot],
  );
  return {
    owner,
    slot,
    seconds,
    held: new Map(),
    surplus: new Set(),
    busy: new Map(),
    renewedAt: moment(clock),
    share: 0,
  };
}

/**
 * Renews what is held, gives back what is beyond the fair share and idle, and takes what is free up to the share.
 * Single statements, each a short transaction of its own, by the database's clock.
 */
export async function keepLease(db: Queryable, lease: Lease, clock: Clock): Promise<void> {
  const before = moment(clock);
  await db.query('update outbox.relay set seen_at = clock_timestamp() where owner = $1', [lease.owner]);
  lease.share = await fairShare(db, lease);

  const { rows: renewed } = await db.query(
    `update outbox.partition
        set lease_expires_at = clock_timestamp() + make_interval(secs => $2)
      where lease_owner = $1
      returning number, lease_token`,
    [lease.owner, lease.seconds],
  );
  lease.held.clear();
  for (const { number, lease_token } of renewed) lease.held.set(number, lease_token);
  lease.renewedAt = before;

  await giveBackSurplus(db, lease);

  const missing = lease.share - lease.held.size;
  if (missing <= 0) return;
  const { rows: taken } = await db.query(
    `with free as (
       select number
         from outbox.partition
        where lease_expires_at is null or lease_expires_at < clock_timestamp()
        order by number
        limit $3
          for update skip locked
     )
     update outbox.partition p
        set lease_owner = $1,
            lease_token = lease_token + 1,
            lease_expires_at = clock_timestamp() + make_interval(secs => $2)
       from free
      where p.number = free.number
      returning p.number, p.lease_token`,
    [lease.owner, lease.seconds, missing],
  );
  for (const { number, lease_token } of taken) lease.held.set(number, lease_token);
}

/** How many partitions this relay should hold, by who lives now. Changes nothing. */
export async function fairShare(db: Queryable, lease: Lease): Promise<number> {
  const { rows } = await db.query(
    `select owner, slot, to_char(started_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') as "startedAt"
       from outbox.relay
      where ended_at is null and (seen_at > clock_timestamp() - make_interval(secs => $1) or owner = $2)`,
    [lease.seconds, lease.owner], // itself even if it froze since the statement before: else it would take that for a hand-over, and end
  );
  return shareOf(lease.owner, rows as LiveRelay[]);
}

/** A partition goes only when nothing of it is in flight; until then nothing new is fetched from it. */
async function giveBackSurplus(db: Queryable, lease: Lease): Promise<void> {
  lease.surplus.clear();
  const beyond = Math.max(0, lease.held.size - lease.share);
  for (const number of [...lease.held.keys()].toSorted((a, b) => b - a).slice(0, beyond)) lease.surplus.add(number);
  await release(
    db,
    lease,
    [...lease.surplus].filter((number) => !lease.busy.has(number)),
  );
}

async function release(db: Queryable, lease: Lease, numbers: readonly number[]): Promise<void> {
  if (numbers.length === 0) return;
  await db.query(
    `update outbox.partition
        set lease_owner = null, lease_expires_at = null
      where lease_owner = $1 and number = any ($2)`,
    [lease.owner, numbers],
  );
  for (const number of numbers) {
    lease.held.delete(number);
    lease.surplus.delete(number);
  }
}

/** Gives everything back and leaves. Called when nothing is in flight. */
export async function endLease(db: Queryable, lease: Lease): Promise<void> {
  await release(db, lease, [...lease.held.keys()]);
  await db.query('update outbox.relay set ended_at = clock_timestamp() where owner = $1', [lease.owner]);
}

/** Milliseconds for which the lease surely still stands. */
export function leaseLeft(lease: Lease, clock: Clock): number {
  return lease.seconds * 1000 - elapsed(clock, lease.renewedAt);
}

export function workablePartitions(lease: Lease): number[] {
  return [...lease.held.keys()].filter((number) => !lease.surplus.has(number));
}

export function markBusy(lease: Lease, partitions: Iterable<number>): void {
  for (const number of partitions) lease.busy.set(number, (lease.busy.get(number) ?? 0) + 1);
}

export function markIdle(lease: Lease, partitions: Iterable<number>): void {
  for (const number of partitions) {
    const left = (lease.busy.get(number) ?? 0) - 1;
    if (left > 0) lease.busy.set(number, left);
    else lease.busy.delete(number);
  }
}
