import {
  absorb,
  acknowledge,
  comeBack,
  depart,
  heads,
  isMisplaced,
  keepPartitions,
  park,
  postpone,
  scanned,
  settling,
  surrender,
  wakeDue,
} from '../../shared/outbox/relay/backlog.ts';
import { advanceCursor, START } from '../../shared/outbox/relay/cursor.ts';
import type { Delivery } from '../../shared/outbox/relay/delivery.ts';
import { outcomeOf, RETRY_POLICY } from '../../shared/outbox/relay/outcome.ts';
import type { PublishResult } from '../../shared/outbox/publish/publisher.ts';
import { applyParking, arrive, find, name, redrive, setAside, settle } from './database.ts';
import type { Rules } from './rules.ts';
import { type Budget, copyOf, type Flight, freshRelay, rowAt, type World } from './world.ts';

export interface Action {
  readonly name: string;
  /** Something that may be counted on to happen in the end: no fault, nobody's decision. */
  readonly certain: boolean;
  /** The relay that it changes, if any. */
  readonly relay: number | undefined;
  /** Changes the world that it is given. Throws when that breaks an invariant. */
  apply(world: World): void;
}

const NAMES = ['A', 'B'];

/** All that may happen next. */
export function actionsOf(world: World, rules: Rules): Action[] {
  const actions: Action[] = [];
  let relay: number | undefined;
  const add = (what: string, certain: boolean, apply: (world: World) => void): void => {
    actions.push({ name: what, certain, relay, apply });
  };
  const fault = (kind: keyof Budget, what: string, apply: (world: World) => void): void => {
    if (world.budget[kind] === 0) return;
    add(what, false, (of) => {
      of.budget[kind] -= 1;
      apply(of);
    });
  };
  writers(world, rules, add, fault);
  queue(world, add);
  operator(world, fault);
  for (const index of [0, 1]) {
    relay = index;
    lease(world, rules, index, add, fault);
    work(world, rules, index, add, fault);
  }
  return actions;
}

type Add = (what: string, certain: boolean, apply: (world: World) => void) => void;
type Fault = (kind: keyof Budget, what: string, apply: (world: World) => void) => void;

function writers(world: World, rules: Rules, add: Add, fault: Fault): void {
  const isIdle = (xid: number): boolean => !world.rows.some((row) => row.xid === xid);
  const idle = world.open.filter(isIdle);
  // A transaction may have its id before it gets the stream's lock: then ids are in another order than sequences.
  const left = Object.values(world.toWrite).reduce((sum, count) => sum + count, 0);
  if (idle.length < left) {
    add(`transaction ${world.xid} begins`, false, (of) => {
      of.open.push(of.xid);
      of.xid += 1;
    });
  }
  for (const [aggregate, count] of Object.entries(world.toWrite)) {
    const rows = world.rows.filter((row) => row.aggregate === aggregate && !row.tombstone);
    const locked = rules.streamLock && rows.some((row) => world.open.includes(row.xid));
    if (count === 0 || locked) continue;
    const sequence = Math.max(0, ...rows.map((row) => row.sequence)) + 1;
    for (const xid of idle) {
      add(`transaction ${xid} appends ${aggregate}#${sequence}`, true, (of) => {
        of.toWrite[aggregate]! -= 1;
        of.rows.push({ aggregate, sequence, xid, state: 'pending', early: false, tombstone: false, claim: -1 });
      });
    }
  }
  for (const xid of world.open) {
    if (isIdle(xid)) continue;
    add(`transaction ${xid} commits`, true, (of) => {
      of.open = of.open.filter((it) => it !== xid);
    });
    // Its sequence is used again. Only the youngest row, because the place in the table is the position.
    const index = world.rows.findIndex((row) => row.xid === xid);
    if (index !== world.rows.length - 1) continue;
    fault('rollback', `transaction ${xid} rolls back`, (of) => {
      of.open = of.open.filter((it) => it !== xid);
      of.rows.pop();
    });
  }
}

function queue(world: World, add: Add): void {
  for (const position of new Set(world.late)) {
    add(`the queue gets ${name(rowAt(world, position))} at last`, true, (of) => {
      of.late.splice(of.late.indexOf(position), 1);
      arrive(of, position);
    });
  }
  if (world.rows.some((row) => row.early)) {
    add('the time of the retries comes', true, (of) => {
      for (const row of of.rows) row.early = false;
    });
  }
}

function operator(world: World, fault: Fault): void {
  for (const [index, row] of world.rows.entries()) {
    if (row.state !== 'parked') continue;
    fault('redrive', `an operator redrives ${name(row)}`, (of) => redrive(of, of.rows[index]!));
    fault('skip', `an operator skips ${name(row)}`, (of) => setAside(of, of.rows[index]!));
  }
}

/** What `followLease` does in the lane. One partition: another token means that everything in memory goes. */
function follow(world: World, index: number, token: number): void {
  const of = world.relays[index]!;
  of.token = token;
  of.cursor = START;
  keepPartitions(of.backlog, new Set());
}

function lease(world: World, rules: Rules, index: number, add: Add, fault: Fault): void {
  const me = NAMES[index];
  const take = (of: World): void => {
    of.holder = index;
    of.token += 1;
    follow(of, index, of.token);
  };
  if (rules.claimRows) {
    // No lease at all: each works on what it claims.
    if (world.relays[index]!.token === 0) add(`${me} starts`, true, (of) => follow(of, index, 1));
    return;
  }
  if (world.holder === -1) add(`${me} takes the lease`, true, take);
  else if (world.holder !== index) fault('steal', `${me} takes the lease, which was over`, take);
  if (world.holder !== index && world.relays[index]!.token !== 0) {
    add(`${me} hears that it has lost the lease`, true, (of) => follow(of, index, 0));
  }
}

function work(world: World, rules: Rules, index: number, add: Add, fault: Fault): void {
  const me = NAMES[index];
  const { backlog, flights, done, toPark, scanned: scan, token, cursor } = world.relays[index]!;
  if (scan !== undefined) {
    add(`${me} takes over what its scan found`, true, (of) => finishScan(of, rules, index));
  } else if (token !== 0) {
    const seen = find(rules.claimRows ? copyOf(world, undefined) : world, rules, index, cursor, backlog.wanted);
    const moved = advanceCursor(cursor, seen.scan, rules.page);
    // A scan that finds nothing only moves the cursor. That counts while somebody writes: it passes what is not yet committed.
    const passes = world.open.length > 0 && (moved.xid !== cursor.xid || moved.position !== cursor.position);
    const useful = seen.chains.length > 0 || backlog.wanted.size > 0 || passes;
    if (useful) add(`${me} scans: ${describe(seen.chains)}`, true, (of) => beginScan(of, rules, index));
  }
  if (token !== 0) {
    for (const [key, head] of heads(backlog)) {
      add(`${me} sends ${name(rowAt(world, head.position))}`, true, (of) => send(of, rules, index, key));
    }
  }
  for (const [at, flight] of flights.entries()) {
    const what = name(rowAt(world, flight.position));
    if (flight.delivered) {
      add(`${me} hears that the queue has ${what}`, true, (of) => {
        answer(of, rules, index, at, { ok: true, messageId: '' });
      });
    } else {
      add(`the queue gets ${what} from ${me}`, true, (of) => {
        of.relays[index]!.flights[at]!.delivered = true;
        arrive(of, flight.position);
      });
      fault('retry', `the queue refuses ${what} of ${me} for now`, (of) => {
        answer(of, rules, index, at, { ok: false, code: 'SomethingNew', reason: '' });
      });
      fault('poison', `the queue refuses ${what} of ${me} for good`, (of) => {
        answer(of, rules, index, at, { ok: false, code: 'InvalidMessageContents', reason: '' });
      });
    }
    fault('silence', `${me} hears nothing of ${what}`, (of) => {
      answer(of, rules, index, at, { ok: false, code: 'TimeoutError', reason: '' });
    });
  }
  if (done.length > 0) add(`${me} settles`, true, (of) => writeOutcomes(of, rules, index));
  for (const key of toPark) {
    add(`${me} applies the parking of ${key}`, true, (of) => {
      const { toPark: left, backlog: held } = of.relays[index]!;
      left.splice(left.indexOf(key), 1);
      if (applyParking(of, rules, key) && rules.lookAfterParking) held.wanted.add(key);
    });
  }
  if (backlog.waiting.size > 0) {
    add(`${me} wakes what waits`, true, (of) => wakeDue(of.relays[index]!.backlog, Infinity));
  }
  const idle = token === 0 && scan === undefined && flights.length === 0 && done.length === 0;
  if (!idle) {
    fault('crash', `${me} dies, and starts again`, (of) => {
      for (const { delivered, position } of of.relays[index]!.flights) if (!delivered) of.late.push(position);
      of.relays[index] = freshRelay();
      // Its name is another one now: the lease runs out by itself.
      if (of.holder === index) of.holder = -1;
    });
  }
}

function describe(chains: ReturnType<typeof find>['chains']): string {
  const rows = chains.flatMap(({ rows: of }) =>
    of.map(({ key, sequence, state, dueInMs }) => `${key}#${sequence} ${dueInMs > 0 ? 'not due' : state}`),
  );
  return rows.join(', ') || 'nothing';
}

function beginScan(world: World, rules: Rules, index: number): void {
  const of = world.relays[index]!;
  const wake = [...of.backlog.wanted];
  of.backlog.wanted.clear();
  of.scans += 1;
  of.scanned = { number: of.scans, token: of.token, ...find(world, rules, index, of.cursor, wake) };
}

function finishScan(world: World, rules: Rules, index: number): void {
  const of = world.relays[index]!;
  const { number, token, chains, scan } = of.scanned!;
  of.scanned = undefined;
  if (token !== of.token) return;
  for (const chain of chains) {
    absorb(of.backlog, chain, number, new Map(chain.rows.map((row) => [row.position, row as Delivery])), 0);
    if (isMisplaced(chain)) addOnce(of.toPark, chain.key);
  }
  scanned(of.backlog, number);
  of.cursor = advanceCursor(of.cursor, scan, rules.page);
}

function send(world: World, rules: Rules, index: number, key: string): void {
  const of = world.relays[index]!;
  depart(of.backlog, [key]);
  const { position } = of.backlog.chains.get(key)!.flying!;
  const row = rowAt(world, position);
  if (of.token === world.token && !rules.claimRows) {
    const charged = of.done.some((done) => done.position === position && done.kind !== 'published');
    if (row.early || charged) throw new Error(`${name(row)} is sent before the time of its retry`);
    if (row.state === 'parked' || row.state === 'blocked') throw new Error(`${name(row)} is ${row.state}, and is sent`);
  }
  of.flights.push({ key, position, token: of.token, delivered: false });
  if (!rules.awaitAcknowledgement) acknowledge(of.backlog, key);
}

/** What `answered` does in the lane, with the real decision. */
function answer(world: World, rules: Rules, index: number, at: number, result: PublishResult): void {
  const of = world.relays[index]!;
  const { backlog } = of;
  const [{ key, position, token, delivered }] = of.flights.splice(at, 1) as [Flight];
  const flies = backlog.chains.get(key)?.flying?.position === position;
  const outcome = outcomeOf(
    result,
    { attempts: 0 },
    { anotherPassedLately: true, policy: RETRY_POLICY, random: () => 0 },
  );
  if (outcome.kind === 'outage') {
    if (!delivered) world.late.push(position);
    if (!flies && rules.awaitAcknowledgement) throw new Error(`${position} came back, but was not in flight`);
    if (of.token === token) comeBack(backlog, key);
    else if (rules.surrenderOne) surrender(backlog, key);
    else {
      comeBack(backlog, key);
      keepPartitions(backlog, new Set());
    }
    return;
  }
  if (flies) {
    if (outcome.kind === 'published') acknowledge(backlog, key);
    if (outcome.kind === 'retry') postpone(backlog, key, 1);
    if (outcome.kind === 'parked') park(backlog, key);
  }
  of.done.push({ key, position, token, kind: outcome.kind });
}

function writeOutcomes(world: World, rules: Rules, index: number): void {
  const of = world.relays[index]!;
  settling(
    of.backlog,
    of.done.map(({ position }) => position),
    of.scans + 1,
  );
  const { unwritten, toPark } = settle(world, rules, index);
  if (!rules.rememberOutcomes) for (const { position } of of.done) of.backlog.outcomes.delete(position);
  of.done = [];
  if (rules.askAgain) for (const key of unwritten) of.backlog.wanted.add(key);
  for (const key of toPark) addOnce(of.toPark, key);
}

function addOnce(list: string[], key: string): void {
  if (!list.includes(key)) list.push(key);
}
