import type { Queryable } from '../../database/index.ts';
import type { Log } from '../../telemetry/index.ts';
import type { Message, Publisher, PublishResult } from '../publish/publisher.ts';
import {
  absorb,
  acknowledge,
  type Backlog,
  comeBack,
  depart,
  emptyBacklog,
  type FoundChain,
  heldOf,
  isMisplaced,
  keepPartitions,
  park,
  postpone,
  scanned,
  sendable,
  settling,
  surrender,
  wakeDue,
} from './backlog.ts';
import { type Bell, bell } from './bell.ts';
import { type Circuit, failed, isProbing, passed, waitFor } from './circuit.ts';
import type { Clock } from './clock.ts';
import { advanceCursor, type Cursor, START } from './cursor.ts';
import type { Delivery, Found, InstalledDestination } from './delivery.ts';
import { find, load } from './find.ts';
import { type Lease, markBusy, markIdle, workablePartitions } from './lease.ts';
import { outcomeOf, type RetryPolicy } from './outcome.ts';
import { packBatch, type Packed } from './pack.ts';
import { publishBatch, toMessage } from './publish-batch.ts';
import { settle, type Settled } from './settle.ts';

/** How much a lane holds in memory, and how it reads. */
export interface WindowLimits {
  /** Deliveries held at most. */
  readonly rows: number;
  /** Sum of their sizes at most, in bytes; one larger message still comes alone. */
  readonly bytes: number;
  /** Rows that one look at the database reads at most. */
  readonly page: number;
  /** Deliveries of one aggregate held at most: a longer one comes in slices. */
  readonly rowsOfAggregate: number;
}

export interface LaneContext {
  readonly db: Queryable;
  readonly lease: Lease;
  readonly destination: InstalledDestination;
  /** CloudEvents source of the installation. */
  readonly source: string;
  readonly publisher: Publisher;
  readonly circuit: Circuit;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
  readonly policy: RetryPolicy;
  readonly window: WindowLimits;
  /** Calls in flight at most. */
  readonly concurrency: number;
  readonly drain: boolean;
  /** Whether nothing new should start. */
  isOver(): boolean;
  /** Whether a call may start: the lease stands for longer than it takes. */
  mayStart(): boolean;
  /** Counts what was settled. */
  settled(entries: readonly Settled[]): void;
  /** Ends the waits of this session. */
  readonly signal: AbortSignal;
}

/** A message that passed this recently proves that its destination works. Milliseconds. */
const LATELY_MS = 60_000;
/** Outcomes are written as soon as there are this many, or the oldest is this old. */
const SETTLE = { entries: 500, ms: 50 };
/** Milliseconds between two looks that found nothing; after one that found something, the least. */
const POLL_MS = { least: 8, most: 250 };
/** Keys looked up by name in one scan at most. */
const WAKE = 500;

interface Lane extends LaneContext {
  readonly bell: Bell;
  readonly backlog: Backlog;
  readonly calls: Set<Promise<void>>;
  cursor: Cursor;
  /** Partitions that the cursor and the backlog speak of, with the token under which each was leased. */
  tokens: ReadonlyMap<number, string>;
  scans: number;
  scanning: Promise<void> | undefined;
  /** Monotonic milliseconds of the next scan. */
  scanAt: number;
  pollMs: number;
  /** Whether the last scan met the end of what there is. */
  exhausted: boolean;
  done: Settled[];
  doneSince: number;
  writing: Promise<void> | undefined;
  /** What ends this session: the connection, as a rule. */
  error: Error | undefined;
}

/**
 * One destination's work. Three things go on at once: calls to the destination, one scan for more, one settlement of what was
 * answered. Lanes share the connection and the lease, and nothing else: a destination that is away does not stop the others.
 */
export async function runLane(context: LaneContext): Promise<void> {
  const lane: Lane = {
    ...context,
    bell: bell(context.clock),
    backlog: emptyBacklog(),
    calls: new Set(),
    cursor: START,
    tokens: new Map(),
    scans: 0,
    scanning: undefined,
    scanAt: 0,
    pollMs: POLL_MS.least,
    exhausted: false,
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
      await lane.bell.wait(nextThing(lane), lane.signal);
    }
  } finally {
    // Whatever the reason: what is in flight is answered and written before the partitions are given back.
    await Promise.allSettled(lane.calls);
    await lane.scanning;
    await lane.writing;
    startSettlement(lane, true);
    await lane.writing;
  }
  if (lane.error !== undefined) throw lane.error;
}

function fail(lane: Lane, error: unknown): void {
  lane.error ??= error instanceof Error ? error : new Error(String(error));
}

function isDrained(lane: Lane): boolean {
  const { backlog, circuit, clock } = lane;
  const idle =
    lane.calls.size === 0 && lane.scanning === undefined && lane.writing === undefined && lane.done.length === 0;
  if (!idle) return false;
  if (waitFor(circuit, clock.monotonic()) > 0) return true;
  const complete = lane.lease.held.size >= lane.lease.share;
  return complete && lane.exhausted && backlog.ready.size === 0 && backlog.wanted.size === 0;
}

/** Milliseconds until something is to be done that no bell announces. */
function nextThing(lane: Lane): number {
  const now = lane.clock.monotonic();
  const times = [now + POLL_MS.most];
  if (mayScan(lane)) times.push(lane.scanAt);
  if (lane.done.length > 0 && lane.writing === undefined) times.push(lane.doneSince + SETTLE.ms);
  if (lane.circuit.openUntil > now) times.push(lane.circuit.openUntil);
  return Math.max(0, Math.min(...times) - now);
}

/**
 * Follows the lease. What is in memory of a partition that was lost is dropped, even when it came back meanwhile: under another token
 * somebody else may have published, parked or skipped what stands here. The walk begins anew; what is still in memory is met again and
 * recognised.
 */
function followLease(lane: Lane): void {
  const { lease, backlog, tokens } = lane;
  const workable = workablePartitions(lease);
  const same =
    workable.length === tokens.size && workable.every((number) => tokens.get(number) === lease.held.get(number));
  if (same) return;
  lane.tokens = new Map(workable.map((number) => [number, lease.held.get(number) ?? '']));
  keepPartitions(backlog, new Set(workable.filter((number) => tokens.get(number) === lane.tokens.get(number))));
  lane.cursor = START;
  lane.scanAt = 0;
}

// ---- scanning

/** Whether there is room for more, and a use for it. */
function mayScan({ scanning, backlog, window, circuit, tokens }: Lane): boolean {
  if (scanning !== undefined || tokens.size === 0) return false;
  if (backlog.rows + window.page > window.rows || backlog.bytes >= window.bytes) return false;
  // A destination that is away fills no memory beyond what probes need.
  return !isProbing(circuit) || backlog.ready.size === 0;
}

function startScan(lane: Lane): void {
  if (!mayScan(lane) || lane.clock.monotonic() < lane.scanAt) return;
  lane.scanning = scan(lane)
    .catch((error: unknown) => {
      fail(lane, error);
    })
    .finally(() => {
      lane.scanning = undefined;
      lane.bell.ring();
    });
}

async function scan(lane: Lane): Promise<void> {
  const { backlog, db, destination, window, clock, tokens, cursor } = lane;
  const wake = [...backlog.wanted].slice(0, WAKE);
  for (const key of wake) backlog.wanted.delete(key);
  lane.scans += 1;
  const number = lane.scans;
  const { page, rowsOfAggregate: cut } = window;
  const result = await find(db, { destination, partitions: [...tokens.keys()], cursor, wake, page, cut });
  const chains = result.chains.filter((chain) => tokens.has(chain.rows[0]?.partition ?? -1));

  const loaded = new Map<string, Delivery>();
  const missing = toLoad(lane, chains, number, loaded);
  for (const [position, delivery] of await load(db, missing, lane.source)) loaded.set(position, delivery);

  // The lease changed meanwhile: what was found may be somebody else's by now, and the walk has begun anew.
  if (lane.tokens !== tokens) return;
  const now = clock.monotonic();
  for (const chain of chains) absorb(backlog, chain, number, loaded, now);
  scanned(backlog, number);
  lane.cursor = advanceCursor(cursor, result.scan, page);

  await applyParking(
    lane,
    chains.filter(isMisplaced).map((chain) => chain.key),
  );

  lane.exhausted = result.scan.rows < page && chains.length === 0;
  if (chains.length > 0) lane.pollMs = POLL_MS.least;
  const full = result.scan.rows >= page || backlog.wanted.size > 0;
  lane.scanAt = full ? 0 : clock.monotonic() + lane.pollMs;
  if (chains.length === 0) lane.pollMs = Math.min(lane.pollMs * 2, POLL_MS.most);
}

/** Picks what has to be read for the chains, within the window's rows and bytes; puts what is at hand into `loaded`. */
function toLoad(lane: Lane, chains: readonly FoundChain[], scanNumber: number, loaded: Map<string, Delivery>): Found[] {
  const { backlog, window } = lane;
  const missing: Found[] = [];
  let bytes = backlog.bytes;
  for (const chain of chains) {
    const atHand = heldOf(backlog, chain.key);
    const flying = backlog.chains.get(chain.key)?.flying?.position;
    for (const row of sendable(backlog, chain, scanNumber, flying).rows) {
      const delivery = atHand.get(row.position);
      if (delivery !== undefined) {
        loaded.set(row.position, delivery);
        continue;
      }
      if (bytes >= window.bytes || backlog.rows + missing.length >= window.rows) break;
      bytes += row.bytes;
      missing.push(row);
    }
  }
  return missing;
}

async function applyParking(lane: Lane, keys: readonly string[]): Promise<void> {
  if (keys.length === 0 || !lane.destination.ordered) return;
  await lane.db.query('select outbox.apply_parking($1, $2)', [lane.destination.number, [...new Set(keys)]]);
  // Another relay may have published the head just before: then nothing was blocked, and nobody else would look at what follows it.
  for (const key of keys) lane.backlog.wanted.add(key);
}

// ---- sending

function startCalls(lane: Lane): void {
  const { backlog, publisher, circuit, clock } = lane;
  while (waitFor(circuit, clock.monotonic()) === 0) {
    const probing = isProbing(circuit);
    if (lane.calls.size >= (probing ? 1 : lane.concurrency)) return;
    const limits = probing ? { ...publisher.limits, entries: 1 } : publisher.limits;
    const { tokens } = lane;
    const mayStart = (partition: number): boolean =>
      tokens.has(partition) && lane.lease.held.get(partition) === tokens.get(partition) && lane.mayStart();
    const { entries, oversized } = packBatch(
      backlog,
      limits,
      (delivery) => toMessage(delivery, lane.destination, publisher),
      mayStart,
    );
    for (const packed of oversized) {
      depart(backlog, [packed.key]);
      const reason = `${packed.message.bytes} bytes, the destination takes ${limits.bytes}`;
      answered(lane, packed, { ok: false, code: 'EventTooLarge', reason }, tokens);
    }
    if (entries.length === 0) return;
    depart(
      backlog,
      entries.map((packed) => packed.key),
    );
    markBusy(
      lane.lease,
      entries.map((packed) => packed.delivery.partition),
    );
    const call = publishBatch(publisher, entries, mayStart, (packed, result) => {
      answered(lane, packed, result, tokens);
      markIdle(lane.lease, [packed.delivery.partition]);
    })
      .catch((error: unknown) => {
        fail(lane, error);
      })
      .finally(() => {
        lane.calls.delete(call);
        lane.bell.ring();
      });
    lane.calls.add(call);
  }
}

function answered(
  lane: Lane,
  packed: Packed<Message>,
  result: PublishResult | null,
  tokens: ReadonlyMap<number, string>,
): void {
  const { backlog, circuit, clock, policy, random, log } = lane;
  const { key, delivery } = packed;
  if (result === null) {
    giveBack(lane, packed, tokens);
    return;
  }
  const now = clock.monotonic();
  const anotherPassedLately = now - circuit.passedAt < LATELY_MS;
  const outcome = outcomeOf(result, delivery, { anotherPassedLately, policy, random });
  switch (outcome.kind) {
    case 'published':
      passed(circuit, now);
      acknowledge(backlog, key);
      break;
    case 'retry':
      postpone(backlog, key, now + outcome.delayMs);
      break;
    case 'parked':
      park(backlog, key);
      log.error('parked: a person has to look at this event; the later ones of its aggregate wait', {
        destination: lane.destination.name,
        eventId: delivery.event.id,
        type: delivery.event.type,
        error: outcome.error,
      });
      break;
    case 'outage':
      giveBack(lane, packed, tokens);
      if (waitFor(circuit, now) === 0) {
        failed(circuit, now, random);
        log.warn('the destination is out of order; nothing is charged, sending resumes by itself', {
          destination: lane.destination.name,
          code: outcome.code,
          retryInMs: Math.round(waitFor(circuit, now)),
        });
      }
      return;
  }
  if (lane.done.length === 0) lane.doneSince = now;
  lane.done.push({ delivery, outcome, token: tokens.get(delivery.partition) ?? '' });
  // Until it is settled the partition is not given back.
  markBusy(lane.lease, [delivery.partition]);
}

/** Untried, or not its fault. What comes back of a lease that was lost meanwhile may be somebody else's: it is looked up again. */
function giveBack({ backlog, tokens }: Lane, { key, delivery }: Packed<Message>, sentUnder: Lane['tokens']): void {
  if (tokens.get(delivery.partition) === sentUnder.get(delivery.partition)) comeBack(backlog, key);
  else surrender(backlog, key);
}

/** The key under which the backlog holds a delivery. */
function keyOf({ destination }: Lane, delivery: Delivery): string {
  return destination.ordered ? delivery.key : delivery.position;
}

// ---- settling

function startSettlement(lane: Lane, atOnce: boolean): void {
  const { backlog, db, lease, clock } = lane;
  if (lane.writing !== undefined || lane.done.length === 0) return;
  const ripe = lane.done.length >= SETTLE.entries || clock.monotonic() - lane.doneSince >= SETTLE.ms;
  const calm = lane.calls.size === 0 && backlog.ready.size === 0;
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
