import { randomUUID } from 'node:crypto';
import { setMaxListeners } from 'node:events';
import { isDeepStrictEqual } from 'node:util';
import type { Queryable } from '../../database/index.ts';
import { SealedOutboxError } from '../../errors/index.ts';
import { inSpan, type Log } from '../../telemetry/index.ts';
import type { Publisher } from '../publish/publisher.ts';
import { unroutable } from '../publish/unroutable.ts';
import { type Circuit, closedCircuit, failed, passed, waitFor } from './circuit.ts';
import { type Clock, moment, elapsed, systemClock } from './clock.ts';
import type { InstalledDestination } from './delivery.ts';
import { type Cursor, START } from './cursor.ts';
import { type Installation, markLowWater, readInstallation } from './find.ts';
import { runLane } from './lane.ts';
import type { LaneContext, WindowLimits } from './lane-state.ts';
import { keepLeasing } from './keep-leasing.ts';
import { endLease, keepLease, type Lease, leaseLeft, register } from './lease.ts';
import { oneAtATime } from './one-at-a-time.ts';
import { RETRY_POLICY, type RetryPolicy } from './outcome.ts';
import { type Patience, patience } from './patience.ts';
import { reportOutage } from './remedy.ts';
import { runReplays } from './replays.ts';
import { tracedPublisher } from './traced-publisher.ts';

/** A connection of the relay's own. It is used by nothing else, and carries no state of a session. */
export interface RelayConnection extends Queryable {
  /** Calls back when the connection is lost. */
  on(event: 'error' | 'end', listener: (error?: Error) => void): unknown;
  /** Also while a statement gives no answer; nothing waits for it then. */
  end(): Promise<void>;
}

export interface RelayOptions {
  /** Opens a connection as a user with the role `outbox_relay`. Called again when one is lost. */
  readonly connect: () => Promise<RelayConnection>;
  /** By the destination's name in the catalogue. */
  readonly publishers: Readonly<Record<string, Publisher>>;
  readonly log: Log;
  /** The schedule or process that starts this relay; a younger relay of the same slot takes over from an older one. */
  readonly slot: string;
  /** Identity of the database cluster, where it is fixed: the relay refuses to work on a restored copy. */
  readonly cluster?: string;
  /** `continuous` polls until its time is over or a younger one takes over; `drain` ends when nothing is due. */
  readonly mode: 'continuous' | 'drain';
  /** Ends at the latest after this long. Seconds; default: never. */
  readonly maxSeconds?: number;
  /** Ends early, after what is in flight, and seconds after the database has gone silent: for SIGTERM. */
  readonly signal?: AbortSignal;
  /** How long a partition is held without renewal, and a statement waited for. Seconds; default 30. */
  readonly leaseSeconds?: number;
  /** Calls in flight per destination; default 32. */
  readonly concurrency?: number;
  readonly window?: WindowLimits;
  readonly policy?: RetryPolicy;
  readonly clock?: Clock;
  readonly random?: () => number;
}

export type RelayEnd = 'handed-over' | 'drained' | 'time-over' | 'stopped';

export interface RelayReport {
  readonly ended: RelayEnd;
  readonly published: number;
  readonly retried: number;
  readonly parked: number;
}

const WINDOW: WindowLimits = { rows: 20_000, bytes: 32 * 1024 * 1024, page: 1_000, rowsOfAggregate: 20 };
const LEASE_SECONDS = 30;
/**
 * What a statement is given to answer, at least; else as long as a lease, after which others may have sent what this relay holds. The slowest
 * that are at work take seconds. Milliseconds.
 */
const LEAST_PATIENCE_MS = 10_000;
/** A call starts only when the lease outlasts its time-out by this. Milliseconds. */
const MARGIN_MS = 1_000;

interface Run {
  readonly options: RelayOptions;
  readonly clock: Clock;
  readonly random: () => number;
  readonly owner: string;
  readonly startedAt: ReturnType<typeof moment>;
  readonly circuits: Map<string, Circuit>;
  readonly counts: { published: number; retried: number; parked: number };
  readonly preflighted: Set<string>;
  end?: RelayEnd;
}

/**
 * The relay: lease partitions, fetch, pack, publish, settle, until it is over.
 *
 * Every event is sent at least once; per aggregate and destination, first occurrences leave in sequence order, with any number of relays. A lost
 * connection costs repeats, never events: the relay opens another and fetches again what was not settled.
 */
export function runRelay(options: RelayOptions): Promise<RelayReport> {
  return inSpan('relay run', { attributes: { 'sealed_outbox.relay.slot': options.slot } }, async (span) => {
    const report = await runSessions(options);
    span.set({
      'sealed_outbox.relay.ended': report.ended,
      'sealed_outbox.relay.published': report.published,
      'sealed_outbox.relay.parked': report.parked,
    });
    return report;
  });
}

async function runSessions(options: RelayOptions): Promise<RelayReport> {
  const clock = options.clock ?? systemClock;
  checkLease(options);
  const run: Run = {
    options,
    clock,
    random: options.random ?? Math.random,
    owner: randomUUID(),
    startedAt: moment(clock),
    circuits: new Map(),
    counts: { published: 0, retried: 0, parked: 0 },
    preflighted: new Set(),
  };
  const database = closedCircuit();
  while (run.end === undefined) {
    try {
      await runSession(run, database);
    } catch (error) {
      if (error instanceof SealedOutboxError && error.code === 'RELAY_CLUSTER') throw error;
      failed(database, clock.monotonic(), run.random);
      const { code, name } = error as { code?: string; name?: string };
      options.log.error('the relay lost its database; what was not settled will be fetched again', {
        code: code ?? name,
        retryInMs: Math.round(waitFor(database, clock.monotonic())),
      });
      if (isOver(run)) break;
      await clock.sleep(waitFor(database, clock.monotonic()), options.signal);
      isOver(run);
    }
  }
  return { ended: run.end ?? 'stopped', ...run.counts };
}

/** A lease is renewed when two thirds of it are left; a call that starts just before must still end within it. */
function checkLease({ publishers, leaseSeconds = LEASE_SECONDS }: RelayOptions): void {
  for (const [name, { limits }] of Object.entries(publishers)) {
    const least = (1.5 * (limits.timeoutMs + MARGIN_MS)) / 1000;
    if (leaseSeconds <= least) {
      throw new SealedOutboxError(
        'RELAY_OPTIONS',
        `leaseSeconds is ${leaseSeconds}, but calls to "${name}" may take ${limits.timeoutMs} ms, which needs more than ${least}. ` +
          'Nothing was leased or sent. Raise leaseSeconds or lower the time-out.',
      );
    }
  }
}

/** After a restore from a backup sequences would be used twice: `restore` makes the database one that relays may work on. */
function checkCluster(run: Run, { cluster }: Installation): void {
  const configured = run.options.cluster;
  if (configured === undefined || cluster === null || configured === cluster) return;
  throw new SealedOutboxError(
    'RELAY_CLUSTER',
    'This database belongs to another cluster than the one configured: it was restored or copied. Nothing was leased or sent. ' +
      'Run the operator command `restore` on it first, or configure the relay for its cluster.',
  );
}

/** Whether this run should start nothing more; says why. */
function isOver(run: Run): boolean {
  const { maxSeconds, signal } = run.options;
  if (signal?.aborted === true) run.end ??= 'stopped';
  if (maxSeconds !== undefined && elapsed(run.clock, run.startedAt) >= maxSeconds * 1000) run.end ??= 'time-over';
  return run.end !== undefined;
}

/** One connection's life. */
async function runSession(run: Run, database: Circuit): Promise<void> {
  const { signal, leaseSeconds = LEASE_SECONDS } = run.options;
  const answers = patience(run.clock, Math.max(leaseSeconds * 1000, LEAST_PATIENCE_MS), signal);
  // Ends the waits of this session: when one part fails, the others stop too.
  const session = new AbortController();
  setMaxListeners(0, session.signal);
  const abort = (): void => session.abort();
  try {
    const connection = await opened(run, answers);
    connection.on('error', abort);
    signal?.addEventListener('abort', abort, { once: true });
    try {
      const db = oneAtATime({ query: (text, values) => answers.wait(async () => connection.query(text, values)) });
      await runLanes(run, db, database, session);
    } finally {
      signal?.removeEventListener('abort', abort);
      const closed = connection.end().catch(() => {});
      await answers.wait(() => closed).catch(() => {});
    }
  } finally {
    answers.end();
  }
}

/** A connection that comes when nobody waits for it any more is closed. */
async function opened({ options }: Run, answers: Patience): Promise<RelayConnection> {
  const opening = options.connect();
  try {
    return await answers.wait(() => opening);
  } catch (error) {
    opening.then((late) => late.end()).catch(() => {});
    throw error;
  }
}

/** Until the run is over, a part fails, or the installation has changed: then the next session, which keeps the lease, works with what is there now. */
async function runLanes(run: Run, db: Queryable, database: Circuit, session: AbortController): Promise<void> {
  const { slot, mode, leaseSeconds = LEASE_SECONDS } = run.options;
  const abort = (): void => session.abort();
  const installation = await readInstallation(db);
  checkCluster(run, installation);
  reportUninstalled(run, installation);
  const lease = await register(db, run.owner, slot, leaseSeconds, run.clock);
  await keepLease(db, lease, run.clock);
  // It is back: the next time that it goes, the waits start from short again.
  passed(database, run.clock.monotonic());
  const starts = new Map<number, Cursor>();
  const markStarts = async (): Promise<void> => {
    for (const destination of installation.destinations) {
      starts.set(destination.number, await markLowWater(db, destination));
    }
  };
  await markStarts();
  const lanes = installation.destinations.map((destination) => {
    const start = (): Cursor => starts.get(destination.number) ?? START;
    return runDestination(run, db, lease, destination, installation.source, start, session).catch(abortAll(session));
  });
  void Promise.allSettled(lanes).then(() => {
    // With no lane at all a continuous relay waits for a destination to be installed.
    if (mode === 'drain' || isOver(run)) abort();
  });
  let changed = false;
  const keeping = keepLeasing(db, lease, {
    clock: run.clock,
    async renewed() {
      await markStarts();
      changed = !isDeepStrictEqual(await readInstallation(db), installation);
      if (changed) abort();
    },
    handedOver: () => (run.end ??= 'handed-over'),
    isOver: () => isOver(run),
    signal: session.signal,
  }).catch(abortAll(session));
  // All of them, also when one failed: what another has in flight must be answered before the connection goes.
  for (const part of await Promise.allSettled([...lanes, keeping])) {
    if (part.status === 'rejected') throw part.reason;
  }
  if (changed && !isOver(run)) {
    run.options.log.info(
      'the installed catalogue has changed; the relay goes on with its destinations as they are now',
    );
    return;
  }
  await endLease(db, lease);
  isOver(run);
  run.end ??= 'drained';
}

/** Of a name that is misspelled, or installed later, nothing else would tell. */
function reportUninstalled({ options }: Run, { destinations }: Installation): void {
  const installed = new Set(destinations.map(({ name }) => name));
  for (const name of Object.keys(options.publishers)) {
    if (installed.has(name)) continue;
    options.log.warn('a publisher is configured for a destination that the installed catalogue does not have', {
      destination: name,
    });
  }
}

function abortAll(session: AbortController): (error: unknown) => never {
  return (error) => {
    session.abort();
    throw error;
  };
}

async function runDestination(
  run: Run,
  db: Queryable,
  lease: Lease,
  destination: InstalledDestination,
  source: string,
  start: () => Cursor,
  session: AbortController,
): Promise<void> {
  const { options, clock } = run;
  const { signal } = session;
  const publisher = options.publishers[destination.name] ?? (destination.retired ? unroutable() : undefined);
  if (publisher === undefined) {
    options.log.error(
      'no publisher is configured for this destination; its events wait, and the lag alarm will see them',
      {
        destination: destination.name,
      },
    );
    return;
  }
  const circuit = run.circuits.get(destination.name) ?? closedCircuit();
  run.circuits.set(destination.name, circuit);
  while (!(await passesPreflight(run, destination, publisher, circuit))) {
    if (options.mode === 'drain' || isOver(run) || signal.aborted) return;
    await clock.sleep(waitFor(circuit, clock.monotonic()), signal);
  }
  const context: LaneContext = {
    db,
    lease,
    destination,
    source,
    publisher: tracedPublisher(publisher, destination),
    circuit,
    clock,
    random: run.random,
    log: options.log,
    policy: options.policy ?? RETRY_POLICY,
    window: options.window ?? WINDOW,
    concurrency: options.concurrency ?? 32,
    drain: options.mode === 'drain',
    start,
    isOver: () => isOver(run),
    mayStart: () => outlasts(lease, publisher, clock),
    settled: (entries) => {
      for (const { outcome } of entries) {
        if (outcome.kind === 'published') run.counts.published += 1;
        else if (outcome.kind === 'retry') run.counts.retried += 1;
        else run.counts.parked += 1;
      }
    },
    signal,
  };
  const lanes = [runLane(context), runReplays(context)].map(async (lane) => lane.catch(abortAll(session)));
  for (const lane of await Promise.allSettled(lanes)) if (lane.status === 'rejected') throw lane.reason;
}

function outlasts(lease: Lease, publisher: Publisher, clock: Clock): boolean {
  return leaseLeft(lease, clock) > publisher.limits.timeoutMs + MARGIN_MS;
}

/** Once a run, before the first send: a wrong name or a missing right is said in one line, and nothing is marked. */
async function passesPreflight(
  run: Run,
  destination: InstalledDestination,
  publisher: Publisher,
  circuit: Circuit,
): Promise<boolean> {
  if (run.preflighted.has(destination.name)) return true;
  try {
    await publisher.preflight();
    run.preflighted.add(destination.name);
    return true;
  } catch (error) {
    const now = run.clock.monotonic();
    failed(circuit, now, run.random);
    const { code, name, message } = error as { code?: string; name?: string; message?: string };
    reportOutage(run.options.log, destination, 'preflight', {
      code: code ?? name ?? 'Unknown',
      ...(message !== undefined && { reason: message }),
      retryInMs: Math.round(waitFor(circuit, now)),
    });
    return false;
  }
}
