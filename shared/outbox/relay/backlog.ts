import type { Delivery, Found } from './delivery.ts';

/**
 * What a lane holds in memory: for each aggregate (on an unordered destination: for each delivery) a chain of deliveries in sequence
 * order, of which the lowest may be sent, one at a time.
 *
 * The rule that order rests on lives here: a delivery is offered only when every lower one *that exists* for its aggregate
 * and destination is published or set aside. `absorb` gets all of an aggregate that is not yet out, from one snapshot; `acknowledge` advances a
 * chain on the queue's acknowledgement, before it is settled.
 *
 * A scan that began before a settlement still sees the old state. Scans are numbered, and what a settlement changed is remembered
 * until a scan that began after it has been absorbed.
 */
export interface Backlog {
  readonly chains: Map<string, Chain>;
  /** Keys whose head may go, in the order in which they came. */
  readonly ready: Set<string>;
  /** Keys of which the database has more than is held here. */
  readonly wanted: Set<string>;
  /** Keys that wait for a retry: until when, on the monotonic clock. */
  readonly waiting: Map<string, number>;
  /** When the first of them is due. Before that, nothing looks at them: they may be many. */
  wakeAt: number;
  /** Deliveries with an outcome that a scan may not have seen. */
  readonly outcomes: Map<string, Remembered>;
  /** Bytes of the deliveries held. */
  bytes: number;
  /** Deliveries held. */
  rows: number;
}

export interface Chain {
  readonly partition: number;
  /** Waiting deliveries, lowest first. */
  rows: Delivery[];
  flying: Delivery | undefined;
  /** Whether the database may hold more of it behind these. */
  more: boolean;
}

/** When to look again at what a scan was too old for: about as long as a settlement takes. Milliseconds. */
const UNWRITTEN_MS = 50;

interface Remembered {
  /** `gone`: published, its followers may go. `held`: waits or is parked, and its followers with it. */
  readonly kind: 'gone' | 'held';
  /** The first scan that sees it. Infinity until it is being settled. */
  seenBy: number;
}

export function emptyBacklog(): Backlog {
  return {
    chains: new Map(),
    ready: new Set(),
    wanted: new Set(),
    waiting: new Map(),
    wakeAt: Number.POSITIVE_INFINITY,
    outcomes: new Map(),
    bytes: 0,
    rows: 0,
  };
}

/** What one scan found of one key: everything that is not yet out, lowest sequence first. */
export interface FoundChain {
  readonly key: string;
  readonly rows: readonly Found[];
  /** Whether the look-up was cut short. */
  readonly cut: boolean;
}

/** The rows of `found` that may go as far as scan number `scan` can tell, and why they end where they end. */
export interface Sendable {
  readonly rows: readonly Found[];
  /** What comes behind them. */
  readonly end: 'nothing' | 'more' | 'waiting' | 'parked' | 'held';
  /** With `waiting` and no rows: milliseconds. */
  readonly dueInMs: number;
}

/** The prefix of a chain that may be sent. Pure: everything that decides order is in here and in the flow of `absorb`. */
export function sendable(
  backlog: Pick<Backlog, 'outcomes'>,
  found: FoundChain,
  scan: number,
  flying?: string,
): Sendable {
  const rows: Found[] = [];
  for (const row of found.rows) {
    const remembered = backlog.outcomes.get(row.position);
    if (remembered !== undefined && scan < remembered.seenBy) {
      if (remembered.kind === 'held') return { rows, end: 'held', dueInMs: 0 };
      continue;
    }
    if (row.position === flying) continue;
    if (row.state !== 'pending') return { rows, end: 'parked', dueInMs: 0 };
    if (row.dueInMs > 0) return { rows, end: 'waiting', dueInMs: row.dueInMs };
    rows.push(row);
  }
  return { rows, end: found.cut ? 'more' : 'nothing', dueInMs: 0 };
}

/**
 * Whether a chain has something pending behind a parked one, or blocked behind nothing: the database has to be told. Where the look-up
 * was cut short, what it was met for may stand beyond the cut.
 */
export function isMisplaced({ rows, cut }: FoundChain): boolean {
  const head = rows[0]?.state;
  return head === 'blocked' || (head === 'parked' && (cut || rows.some((row) => row.state === 'pending')));
}

/** What is held of a chain already, by position: it needs no second look at its event. */
export function heldOf(backlog: Backlog, key: string): ReadonlyMap<string, Delivery> {
  return new Map(backlog.chains.get(key)?.rows.map((row) => [row.position, row]));
}

/**
 * Takes over what scan number `scan` found of one key. `loaded` has the deliveries whose events are at hand; a chain ends before the
 * first that is not, and is wanted again later.
 */
export function absorb(
  backlog: Backlog,
  found: FoundChain,
  scan: number,
  loaded: ReadonlyMap<string, Delivery>,
  now: number,
): void {
  const { key } = found;
  const chain = backlog.chains.get(key);
  const { rows: may, end, dueInMs } = sendable(backlog, found, scan, chain?.flying?.position);
  const rows: Delivery[] = [];
  let complete = true;
  for (const row of may) {
    const delivery = loaded.get(row.position);
    if (delivery === undefined) {
      complete = false;
      break;
    }
    rows.push(delivery);
  }
  if (end === 'held' && rows.length === 0) {
    // This scan is older than what holds the chain; a younger one will tell. A retry may be due before it is written, and has been
    // taken off the wanted ones for this scan: it must be asked for again, or nobody would.
    if (chain !== undefined) chain.more = true;
    else if (!backlog.waiting.has(key)) wait(backlog, key, now + UNWRITTEN_MS);
    return;
  }
  backlog.waiting.delete(key);
  backlog.wanted.delete(key);
  if (chain !== undefined) hold(backlog, chain.rows, -1);
  const more = !complete || end === 'more' || end === 'waiting' || end === 'held';
  if (rows.length === 0 && chain?.flying === undefined) {
    backlog.chains.delete(key);
    backlog.ready.delete(key);
    if (end === 'waiting' && may.length === 0) wait(backlog, key, now + dueInMs);
    else if (more) backlog.wanted.add(key);
    return;
  }
  const partition = rows[0]?.partition ?? chain?.partition ?? 0;
  backlog.chains.set(key, { partition, rows, flying: chain?.flying, more });
  hold(backlog, rows, 1);
  // One that was ready keeps its place: an aggregate that grows all the time would never be sent.
  if (chain?.flying === undefined) backlog.ready.add(key);
}

/** Forgets the waiting rows of a chain; one that is flying stays. */
function drop(backlog: Backlog, key: string): void {
  const chain = backlog.chains.get(key);
  if (chain === undefined) return;
  hold(backlog, chain.rows, -1);
  chain.rows = [];
  backlog.ready.delete(key);
  if (chain.flying === undefined) backlog.chains.delete(key);
}

function hold(backlog: Backlog, rows: readonly Delivery[], sign: 1 | -1): void {
  backlog.rows += sign * rows.length;
  for (const row of rows) backlog.bytes += sign * row.bytes;
}

/** The heads that may be sent now, those that came first before the others. */
export function* heads(backlog: Backlog): Generator<[key: string, head: Delivery]> {
  for (const key of backlog.ready) {
    const head = backlog.chains.get(key)?.rows[0];
    if (head !== undefined) yield [key, head];
  }
}

/** Marks heads as sent and not yet answered: the next of their chains wait. */
export function depart(backlog: Backlog, keys: Iterable<string>): void {
  for (const key of keys) {
    const chain = backlog.chains.get(key);
    const head = chain?.rows.shift();
    if (chain === undefined || head === undefined) continue;
    chain.flying = head;
    backlog.ready.delete(key);
  }
}

/** The queue has it: the next of its chain may go. */
export function acknowledge(backlog: Backlog, key: string): void {
  const chain = land(backlog, key, 'gone');
  if (chain === undefined) return;
  if (chain.rows.length > 0) backlog.ready.add(key);
  else leave(backlog, key, chain.more);
}

/** Refused and charged: it and its followers wait for `due` (monotonic milliseconds), and are looked up again then. */
export function postpone(backlog: Backlog, key: string, due: number): void {
  const chain = land(backlog, key, 'held');
  if (chain === undefined) return;
  drop(backlog, key);
  backlog.chains.delete(key);
  wait(backlog, key, due);
}

function wait(backlog: Backlog, key: string, due: number): void {
  backlog.waiting.set(key, due);
  backlog.wakeAt = Math.min(backlog.wakeAt, due);
}

/** Its event is gone, so it can never go: neither it nor what follows it, until a scan sees what was made of it. */
export function lose(backlog: Backlog, position: string): void {
  backlog.outcomes.set(position, { kind: 'held', seenBy: Number.POSITIVE_INFINITY });
}

/** Parked: its followers are the database's business. */
export function park(backlog: Backlog, key: string): void {
  const chain = land(backlog, key, 'held');
  if (chain === undefined) return;
  drop(backlog, key);
  backlog.chains.delete(key);
}

/** Not its fault, nothing was charged: it is the head again, behind the heads of other chains, so that another one probes. */
export function comeBack(backlog: Backlog, key: string): void {
  const chain = backlog.chains.get(key);
  if (chain?.flying === undefined) return;
  chain.rows.unshift(chain.flying);
  chain.flying = undefined;
  backlog.ready.add(key);
}

/** As `comeBack`, but nothing in memory of its chain is to be trusted: the database is asked. */
export function surrender(backlog: Backlog, key: string): void {
  comeBack(backlog, key);
  drop(backlog, key);
  backlog.wanted.add(key);
}

function land(backlog: Backlog, key: string, kind: Remembered['kind']): Chain | undefined {
  const chain = backlog.chains.get(key);
  const landed = chain?.flying;
  if (chain === undefined || landed === undefined) return undefined;
  hold(backlog, [landed], -1);
  chain.flying = undefined;
  backlog.outcomes.set(landed.position, { kind, seenBy: Number.POSITIVE_INFINITY });
  return chain;
}

function leave(backlog: Backlog, key: string, more: boolean): void {
  backlog.chains.delete(key);
  if (more) backlog.wanted.add(key);
}

/** Outcomes are being settled now: the scan with this number, and all later ones, begin after it. */
export function settling(backlog: Backlog, positions: Iterable<string>, nextScan: number): void {
  for (const position of positions) {
    const remembered = backlog.outcomes.get(position);
    if (remembered !== undefined) remembered.seenBy = nextScan;
  }
}

/** Scan number `scan` has been absorbed: what every later scan sees by itself is forgotten. */
export function scanned(backlog: Backlog, scan: number): void {
  for (const [position, { seenBy }] of backlog.outcomes) if (seenBy <= scan) backlog.outcomes.delete(position);
}

/** Retries whose time has come are looked up again. */
export function wakeDue(backlog: Backlog, now: number): void {
  if (now < backlog.wakeAt) return;
  backlog.wakeAt = Number.POSITIVE_INFINITY;
  for (const [key, due] of backlog.waiting) {
    if (due > now) {
      backlog.wakeAt = Math.min(backlog.wakeAt, due);
      continue;
    }
    backlog.waiting.delete(key);
    backlog.wanted.add(key);
  }
}

/** Lets go of everything that is not in flight and whose partition is not among those kept. */
export function keepPartitions(backlog: Backlog, kept: ReadonlySet<number>): void {
  for (const [key, chain] of backlog.chains) {
    if (kept.has(chain.partition)) continue;
    chain.more = false;
    drop(backlog, key);
  }
}
