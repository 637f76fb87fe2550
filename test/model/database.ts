import type { FoundChain } from '../../shared/outbox/relay/backlog.ts';
import type { Cursor, Scan } from '../../shared/outbox/relay/cursor.ts';
import type { Rules } from './rules.ts';
import { foundAt, rowAt, type Row, type World } from './world.ts';

/** What the SQL of `migrations/outbox` and `settle.ts` does, each an atomic step on plain data. */

const isOut = ({ state }: Row): boolean => state === 'published' || state === 'set_aside';

/** Positions of an aggregate that are committed, lowest sequence first. */
function chainOf(world: World, aggregate: string): number[] {
  return world.rows
    .map((_, index) => index + 1)
    .filter((position) => world.rows[position - 1]!.aggregate === aggregate)
    .filter((position) => !world.open.includes(world.rows[position - 1]!.xid))
    .toSorted((a, b) => world.rows[a - 1]!.sequence - world.rows[b - 1]!.sequence);
}

/** `outbox.find`. */
export function find(
  world: World,
  rules: Rules,
  relay: number,
  cursor: Cursor,
  wake: Iterable<string>,
): { chains: FoundChain[]; scan: Scan } {
  const xmax = world.xid;
  const pending = world.rows
    .map((row, index) => ({ row, position: index + 1 }))
    .filter(({ row }) => row.state === 'pending' && !world.open.includes(row.xid))
    .filter(({ row }) => !rules.claimRows || row.claim === -1 || row.claim === relay)
    .toSorted((a, b) => a.row.xid - b.row.xid || a.position - b.position);
  const [afterXid, afterPosition] = [BigInt(cursor.xid), BigInt(cursor.position)];
  const walked = pending
    .filter(
      ({ row: { xid }, position }) =>
        BigInt(xid) > afterXid || (BigInt(xid) === afterXid && BigInt(position) > afterPosition),
    )
    .slice(0, rules.page);
  const late = [...cursor.open].map(([xid, after]) => {
    const rows = pending
      .filter(({ row, position }) => row.xid === Number(xid) && position > Number(after))
      .slice(0, rules.page);
    return { xid, rows, full: rows.length >= rules.page, position: String(rows.at(-1)?.position ?? after) };
  });
  const met = [...walked, ...late.flatMap(({ rows }) => rows)];
  if (rules.claimRows) for (const { row } of met) row.claim = relay;
  const keys = [...new Set([...met.map(({ row }) => row.aggregate), ...wake])].toSorted();
  const chains: FoundChain[] = [];
  for (const key of keys) {
    let rows = chainOf(world, key).filter((position) => !isOut(world.rows[position - 1]!));
    if (!rules.lookUp) rows = rows.filter((position) => met.some((row) => row.position === position));
    if (rules.claimRows) rows = rows.filter((position) => world.rows[position - 1]!.claim === relay);
    if (rows.length === 0) continue;
    chains.push({
      key,
      rows: rows.slice(0, rules.cut).map((position) => foundAt(world, position)),
      cut: rows.length >= rules.cut,
    });
  }
  const scan: Scan = {
    snapshot: `${Math.min(xmax, ...world.open)}:${xmax}:${world.open.join(',')}`,
    rows: walked.length,
    xid: walked.at(-1)?.row.xid.toString() ?? null,
    position: walked.at(-1)?.position.toString() ?? null,
    open: late.map(({ xid, full, position }) => ({ xid, full, position })),
  };
  return { chains, scan };
}

/** `settle`: all outcomes of a relay in one statement, and what it found otherwise. */
export function settle(world: World, rules: Rules, relay: number): { unwritten: string[]; toPark: string[] } {
  const unwritten: string[] = [];
  const toPark: string[] = [];
  for (const { key, position, token, kind } of world.relays[relay]!.done) {
    const row = rowAt(world, position);
    if (kind === 'published') {
      if (row.state !== 'pending' && row.state !== 'published') toPark.push(key);
      row.state = 'published';
      row.early = false;
    } else if (
      (row.state === 'pending' && (!rules.leaseCounts || (world.holder === relay && world.token === token))) ||
      (row.state === 'published' && !rules.publishedWins)
    ) {
      if (row.state === 'published') throw new Error(`${name(row)} was published, and is ${kind} now`);
      row.state = kind === 'retry' ? 'pending' : 'parked';
      row.early = kind === 'retry';
      if (kind === 'parked') toPark.push(key);
    } else {
      unwritten.push(key);
    }
  }
  return { unwritten, toPark };
}

/** `outbox.apply_parking`: whether the key has to be looked up again. */
export function applyParking(world: World, rules: Rules, aggregate: string): boolean {
  const chain = chainOf(world, aggregate)
    .map((position) => world.rows[position - 1]!)
    .filter((row) => !isOut(row));
  const [head, ...others] = chain;
  if (head?.state === 'blocked' && rules.unblock) releaseChain(world, aggregate);
  if (head?.state !== 'parked') return head !== undefined;
  if (rules.whenParked === 'skip') setAside(world, head);
  else for (const row of others) if (row.state === 'pending') row.state = 'blocked';
  return rules.whenParked === 'skip';
}

/** `outbox.release_chain`: what is blocked below the lowest parked one is pending again, under a new transaction id. */
function releaseChain(world: World, aggregate: string): void {
  const chain = chainOf(world, aggregate).map((position) => world.rows[position - 1]!);
  const barrier = chain.find((row) => row.state === 'parked')?.sequence ?? Infinity;
  const xid = (world.xid += 1) - 1;
  for (const row of chain) {
    if (row.state !== 'blocked' || row.sequence >= barrier) continue;
    row.state = 'pending';
    row.xid = xid;
  }
}

/** `outbox.redrive`. */
export function redrive(world: World, row: Row): void {
  row.state = 'pending';
  row.early = false;
  row.xid = (world.xid += 1) - 1;
  releaseChain(world, row.aggregate);
}

/** `outbox.skip` and `outbox.set_aside`: a tombstone takes the place, unless it is one itself. */
export function setAside(world: World, row: Row): void {
  row.state = 'set_aside';
  if (!row.tombstone) {
    const { aggregate, sequence } = row;
    const xid = (world.xid += 1) - 1;
    world.rows.push({ aggregate, sequence, xid, state: 'pending', early: false, tombstone: true, claim: -1 });
  }
  releaseChain(world, row.aggregate);
}

/** The queue takes a message. Its first occurrence must not come after that of a higher one. */
export function arrive(world: World, position: string): void {
  const row = rowAt(world, position);
  const seen = world.arrived[row.aggregate]!;
  if (seen.includes(row.sequence)) return;
  const higher = seen.find((sequence) => sequence > row.sequence);
  if (higher !== undefined) throw new Error(`${name(row)} reaches the queue after ${row.aggregate}#${higher}`);
  seen.push(row.sequence);
  seen.sort((a, b) => a - b);
}

export function name({ aggregate, sequence, tombstone }: Row): string {
  return `${aggregate}#${sequence}${tombstone ? "'" : ''}`;
}

/** Whether nothing is left to do: everything committed is out, or stands behind a parked one. */
export function isAtRest(world: World): boolean {
  if (world.open.length > 0) return false;
  return Object.keys(world.arrived).every((aggregate) => {
    const rows = chainOf(world, aggregate)
      .map((position) => world.rows[position - 1]!)
      .filter((row) => !isOut(row));
    return rows.length === 0 || (rows[0]!.state === 'parked' && rows.every((row) => row.state !== 'pending'));
  });
}

/** Published means that the queue has it, or had it. Tombstones stand for what they replace. */
export function expectPublishedArrived(world: World): void {
  for (const row of world.rows) {
    if (row.state === 'published' && !world.arrived[row.aggregate]!.includes(row.sequence)) {
      throw new Error(`${name(row)} is marked as published, but never reached the queue`);
    }
  }
}
