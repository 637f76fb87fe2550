import type { Queryable } from '../../database/index.ts';
import type { Log } from '../../telemetry/index.ts';
import type { Publisher } from '../publish/publisher.ts';
import type { Backlog } from './backlog.ts';
import type { Bell } from './bell.ts';
import type { Circuit } from './circuit.ts';
import type { Clock } from './clock.ts';
import type { Cursor } from './cursor.ts';
import type { Found, InstalledDestination } from './delivery.ts';
import type { Floors } from './floors.ts';
import { type Lease, markBusy } from './lease.ts';
import type { RetryPolicy } from './outcome.ts';
import type { Pace } from './pace.ts';
import type { Settled } from './settle.ts';
import type { Work } from './work.ts';

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
  /** Default: the live deliveries. */
  readonly work?: Work;
  /** Default: as fast as the destination takes them. */
  readonly pace?: Pace;
  /** Calls in flight at most. */
  readonly concurrency: number;
  readonly drain: boolean;
  /** Where a walk may begin: everything before it is out. */
  start(): Cursor;
  /** Whether nothing new should start. */
  isOver(): boolean;
  /** Whether a call may start: the lease stands for longer than it takes. */
  mayStart(): boolean;
  /** Counts what was settled. */
  settled(entries: readonly Settled[]): void;
  /** Ends the waits of this session. */
  readonly signal: AbortSignal;
}

export interface Lane extends LaneContext {
  readonly work: Work;
  readonly bell: Bell;
  readonly backlog: Backlog;
  readonly calls: Set<Promise<void>>;
  /** Sum of the messages in these calls. */
  flyingBytes: number;
  cursor: Cursor;
  readonly floors: Floors;
  /** Partitions that the cursor and the backlog speak of, with the token under which each was leased. */
  tokens: ReadonlyMap<number, string>;
  scans: number;
  scanning: Promise<void> | undefined;
  /** Monotonic milliseconds of the next scan. */
  scanAt: number;
  pollMs: number;
  /** Whether the last scan met the end of what there is. */
  exhausted: boolean;
  /** Keys of parked heads behind which not everything is blocked yet; up to which sequence it is. */
  readonly parking: Map<string, string | null>;
  done: Settled[];
  doneSince: number;
  writing: Promise<void> | undefined;
  /** What ends this session: the connection, as a rule. */
  error: Error | undefined;
}

/** Ends the lane at its next turn. */
export function fail(lane: Lane, error: unknown): void {
  lane.error ??= error instanceof Error ? error : new Error(String(error));
}

/** Hands an outcome over to the next settlement. Until that is written, the partition is not given back. */
export function settleLater(
  lane: Lane,
  delivery: Found,
  outcome: Settled['outcome'],
  sentUnder: Lane['tokens'] = lane.tokens,
): void {
  if (lane.done.length === 0) lane.doneSince = lane.clock.monotonic();
  lane.done.push({ delivery, outcome, token: sentUnder.get(delivery.partition) ?? '' });
  markBusy(lane.lease, [delivery.partition]);
}

/**
 * Does a slice of what follows from parked heads; what is left is done with the next scan, between which others have the connection. Whoever is stopped in it
 * leaves pending ones behind a parked head: the next walk meets them.
 */
export async function applyParking(lane: Lane, keys: readonly string[]): Promise<void> {
  const all = new Map([...keys.map((key): [string, null] => [key, null]), ...lane.parking]);
  if (all.size === 0) return;
  lane.parking.clear();
  for (const { key, more, reached } of await lane.work.applyParking(lane.db, lane.destination, all)) {
    // Another relay may have published the head just before: then nothing was blocked, and nobody else would look at what follows it.
    if (more) lane.parking.set(key, reached);
    else lane.backlog.wanted.add(key);
  }
}
