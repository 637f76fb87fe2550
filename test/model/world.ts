import { type Backlog, emptyBacklog, type FoundChain } from '../../shared/outbox/relay/backlog.ts';
import { type Cursor, type Scan, START } from '../../shared/outbox/relay/cursor.ts';
import type { Delivery, Found } from '../../shared/outbox/relay/delivery.ts';

/** A row of outbox.delivery; its position is its place in the table, from 1. */
export interface Row {
  readonly aggregate: string;
  readonly sequence: number;
  xid: number;
  state: 'pending' | 'parked' | 'blocked' | 'set_aside' | 'published';
  /** Whether a retry's time has still to come. */
  early: boolean;
  /** Put in the place of one that was set aside. */
  readonly tombstone: boolean;
  /** Relay that claimed it; only a broken variant claims rows. */
  claim: number;
}

/** A message between a relay and the queue. */
export interface Flight {
  readonly key: string;
  readonly position: string;
  /** The lease under which it was sent. */
  readonly token: number;
  /** Whether it is in the queue; the relay does not know until it is answered. */
  delivered: boolean;
}

export interface Done {
  readonly key: string;
  readonly position: string;
  readonly token: number;
  readonly kind: 'published' | 'retry' | 'parked';
}

/** A scan that was answered by the database and has not been taken over. */
export interface Scanned {
  readonly number: number;
  readonly token: number;
  readonly chains: readonly FoundChain[];
  readonly scan: Scan;
}

export interface Relay {
  backlog: Backlog;
  cursor: Cursor;
  /** The lease that it believes it has; 0: none. */
  token: number;
  scans: number;
  scanned: Scanned | undefined;
  flights: Flight[];
  done: Done[];
  /** Aggregates whose parking is to be applied. */
  toPark: string[];
}

/** What may still go wrong, or be done by a person; each use takes one. */
export interface Budget {
  /** A lease ends while its holder lives. */
  steal: number;
  crash: number;
  /** No answer, whether the message arrives or not. */
  silence: number;
  /** Refused, to be tried again. */
  retry: number;
  /** Refused for good. */
  poison: number;
  redrive: number;
  skip: number;
  rollback: number;
}

/** Everything there is. Plain data; each action changes a copy. */
export interface World {
  readonly rows: Row[];
  xid: number;
  /** Writers' transactions that have not ended. */
  open: number[];
  /** Events still to be written, by aggregate. */
  readonly toWrite: Record<string, number>;
  /** Which relay has the lease in the database: 0, 1; -1: none. */
  holder: number;
  token: number;
  /** Sequences that the queue has seen, by aggregate. */
  readonly arrived: Record<string, number[]>;
  /** Positions of messages that are under way although nobody waits for an answer. */
  readonly late: string[];
  readonly relays: [Relay, Relay];
  readonly budget: Budget;
}

export function freshRelay(): Relay {
  return {
    backlog: emptyBacklog(),
    cursor: START,
    token: 0,
    scans: 0,
    scanned: undefined,
    flights: [],
    done: [],
    toPark: [],
  };
}

/** Relay A has the lease. `written` of the events are there already, each by a transaction of its own. */
export function freshWorld(
  events: Readonly<Record<string, number>>,
  budget: Partial<Budget>,
  written: Readonly<Record<string, number>> = {},
): World {
  const rows = Object.entries(written).flatMap(([aggregate, count]) =>
    Array.from({ length: count }, (_, index) => ({ aggregate, sequence: index + 1 })),
  );
  const names = new Set([...Object.keys(events), ...Object.keys(written)]);
  return {
    rows: rows.map((row, index) => ({
      ...row,
      xid: index + 1,
      state: 'pending',
      early: false,
      tombstone: false,
      claim: -1,
    })),
    xid: rows.length + 1,
    open: [],
    toWrite: { ...events },
    holder: 0,
    token: 1,
    arrived: Object.fromEntries([...names].map((aggregate) => [aggregate, []])),
    late: [],
    relays: [{ ...freshRelay(), token: 1 }, freshRelay()],
    budget: { steal: 0, crash: 0, silence: 0, retry: 0, poison: 0, redrive: 0, skip: 0, rollback: 0, ...budget },
  };
}

export function rowAt(world: World, position: string): Row {
  return world.rows[Number(position) - 1]!;
}

/** A row as a scan reports it. */
export function foundAt(world: World, position: number): Found {
  const row = world.rows[position - 1]!;
  const { aggregate, sequence } = row;
  return found(position, aggregate, sequence, row.state as Found['state'], row.early);
}

function found(position: number, key: string, sequence: number, state: Found['state'], early: boolean): Found {
  return {
    position: String(position),
    eventId: '',
    key,
    partition: 0,
    sequence: BigInt(sequence),
    attempts: 0,
    run: 0,
    bytes: 1,
    state,
    dueInMs: early ? 1 : 0,
  };
}

/** A copy that may be changed: all of it but the relays, of which only number `touched` may. */
export function copyOf(world: World, touched: number | undefined): World {
  const { rows, open, toWrite, arrived, late, relays, budget } = world;
  return {
    ...world,
    rows: rows.map((row) => ({ ...row })),
    open: [...open],
    toWrite: { ...toWrite },
    arrived: Object.fromEntries(Object.entries(arrived).map(([aggregate, seen]) => [aggregate, [...seen]])),
    late: [...late],
    relays: [touched === 0 ? copyOfRelay(relays[0]) : relays[0], touched === 1 ? copyOfRelay(relays[1]) : relays[1]],
    budget: { ...budget },
  };
}

function copyOfRelay(relay: Relay): Relay {
  const { backlog } = relay;
  return {
    ...relay,
    backlog: {
      chains: new Map([...backlog.chains].map(([key, chain]) => [key, { ...chain, rows: [...chain.rows] }])),
      ready: new Set(backlog.ready),
      wanted: new Set(backlog.wanted),
      waiting: new Map(backlog.waiting),
      wakeAt: backlog.wakeAt,
      outcomes: new Map([...backlog.outcomes].map(([position, outcome]) => [position, { ...outcome }])),
      bytes: backlog.bytes,
      rows: backlog.rows,
    },
    flights: relay.flights.map((flight) => ({ ...flight })),
    done: [...relay.done],
    toPark: [...relay.toPark],
  };
}

/** A canonical text of the world: two that behave alike have the same. */
export function encode(world: World): string {
  const { rows, xid, open, toWrite, holder, token, arrived, late, budget } = world;
  const base = JSON.stringify([
    rows.map((row) => [row.aggregate, row.sequence, row.xid, row.state, +row.early, +row.tombstone, row.claim]),
    xid,
    open,
    toWrite,
    holder,
    token,
    arrived,
    sorted(late),
    budget,
  ]);
  return `${base}\n${encodeRelay(world.relays[0])}\n${encodeRelay(world.relays[1])}`;
}

function sorted<T extends string | readonly unknown[]>(list: readonly T[]): readonly T[] {
  return list.length < 2 ? list : list.toSorted((a, b) => (String(a) < String(b) ? -1 : 1));
}

/** Most steps leave one relay as it is, or both. */
const encoded = new WeakMap<Relay, string>();

function encodeRelay(relay: Relay): string {
  const known = encoded.get(relay);
  if (known !== undefined) return known;
  const { backlog, cursor, scanned, scans } = relay;
  const text = JSON.stringify([
    sorted(
      [...backlog.chains].map(([key, { rows, flying, more }]) => [
        key,
        rows.map((row) => row.position),
        flying?.position ?? 0,
        +more,
      ]),
    ),
    sorted([...backlog.ready]),
    sorted([...backlog.wanted]),
    sorted([...backlog.waiting.keys()]),
    // Only the distance of scan numbers counts, and only for a scan that is under way; without this the states would have no end.
    sorted(
      [...backlog.outcomes]
        .filter(([, { seenBy }]) => seenBy === Infinity || (scanned !== undefined && seenBy > scanned.number))
        .map(([position, { kind, seenBy }]) => [position, kind, seenBy === Infinity ? 9 : seenBy - scans]),
    ),
    [cursor.xid, cursor.position, sorted([...cursor.open])],
    relay.token,
    scanned === undefined
      ? 0
      : [
          scanned.token,
          scanned.chains.map(({ key, rows, cut }) => [
            key,
            rows.map((row) => [row.position, row.state, row.dueInMs]),
            +cut,
          ]),
          scanned.scan,
        ],
    sorted(relay.flights.map(({ key, position, token, delivered }) => [key, position, token, +delivered])),
    sorted(relay.done.map(({ key, position, token, kind }) => [key, position, token, kind])),
    sorted(relay.toPark),
  ]);
  encoded.set(relay, text);
  return text;
}

/* eslint-disable typescript/no-explicit-any -- the text is one that `encode` wrote */
export function decode(text: string): World {
  const [base, ...relays] = text.split('\n').map((part) => JSON.parse(part) as any[]) as [any[], ...any[][]];
  const [rows, xid, open, toWrite, holder, token, arrived, late, budget] = base;
  const world: World = {
    rows: rows.map(([aggregate, sequence, of, state, early, tombstone, claim]: any[]) => ({
      aggregate,
      sequence,
      xid: of,
      state,
      early: early === 1,
      tombstone: tombstone === 1,
      claim,
    })),
    xid,
    open,
    toWrite,
    holder,
    token,
    arrived,
    late,
    relays: [freshRelay(), freshRelay()],
    budget,
  };
  for (const [index, of] of relays.entries()) world.relays[index] = decodeRelay(world, of);
  return world;
}

function decodeRelay(
  world: World,
  [chains, ready, wanted, waiting, outcomes, cursor, token, scan, flights, done, toPark]: any,
): Relay {
  const backlog = emptyBacklog();
  const held = (position: string): Delivery => {
    const row = rowAt(world, position);
    backlog.rows += 1;
    backlog.bytes += 1;
    return found(Number(position), row.aggregate, row.sequence, 'pending', false) as Delivery;
  };
  for (const [key, rows, flying, more] of chains) {
    backlog.chains.set(key, {
      partition: 0,
      rows: rows.map(held),
      flying: flying === 0 ? undefined : held(flying),
      more: more === 1,
    });
  }
  for (const key of ready) backlog.ready.add(key);
  for (const key of wanted) backlog.wanted.add(key);
  for (const key of waiting) backlog.waiting.set(key, 1);
  backlog.wakeAt = waiting.length > 0 ? 1 : Infinity;
  for (const [position, kind, seenBy] of outcomes) {
    backlog.outcomes.set(position, { kind, seenBy: seenBy === 9 ? Infinity : seenBy });
  }
  return {
    backlog,
    cursor: { xid: cursor[0], position: cursor[1], open: new Map(cursor[2]) },
    token,
    scans: 0,
    scanned:
      scan === 0
        ? undefined
        : {
            number: 0,
            token: scan[0],
            chains: scan[1].map(([key, rows, cut]: any[]) => ({
              key,
              rows: rows.map(([position, state, dueInMs]: any[]) =>
                found(Number(position), key, rowAt(world, position).sequence, state, dueInMs > 0),
              ),
              cut: cut === 1,
            })),
            scan: scan[2],
          },
    flights: flights.map(([key, position, of, delivered]: any[]) => ({
      key,
      position,
      token: of,
      delivered: delivered === 1,
    })),
    done: done.map(([key, position, of, kind]: any[]) => ({ key, position, token: of, kind })),
    toPark,
  };
}
