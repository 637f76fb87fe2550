import { setTimeout as delay } from 'node:timers/promises';
import { acceptance, type Acceptance } from './acceptance.ts';
import { CALL_FAULTS, callFaults } from './call-faults.ts';
import { DESTINATIONS } from './catalogue.ts';
import { runConsumerChild } from './consumer-child.ts';
import { settled } from './settled.ts';
import { startFaultProxy } from './fault-proxy.ts';
import { type ChaosOptions, isLong } from './options.ts';
import { type Progress, progressLine } from './progress.ts';
import { PROCESS_FAULTS, runProcessFaults } from './process-faults.ts';
import { seeded } from './random.ts';
import { startRelays } from './relays.ts';
import type { ChaosReport } from './report.ts';
import { setStage, type Stage } from './stage.ts';
import { judge } from './verdict.ts';
import { emptyLedger, isFault, type Ledger, runWriters, transact } from './writers.ts';

export interface Surroundings {
  /** Ends the run at once, without a report. */
  readonly signal: AbortSignal;
  /** Ends the faults early; what is under way settles and is judged. */
  readonly enough?: AbortSignal;
  readonly say: (line: string) => void;
}

/** Shorter than in earnest, so that many expire in a run; longer than 1.5 × (1,200 + 1,000) ms, which the relay asks for. */
const LEASE_SECONDS = 3.5;
const TIMEOUT_MS = 1_200;
const WRITERS = { short: { connections: 12, eventsAtOnce: 5 }, long: { connections: 24, eventsAtOnce: 10 } };
/** Writers wait when so many deliveries are not yet out, or not yet applied. */
const BACKLOG = 50_000;
const PROGRESS_SECONDS = 10;
/** A relay that is to be caught has been caught after so many breaks. */
const CAUGHT = 2;
/** Relays that are not up by then are not waited for. Milliseconds. */
const STARTING_MS = 15_000;
/** What nobody works on for so long stays as it is: longer than the longest wait of a relay. Milliseconds. */
const STANDSTILL_MS = 45_000;
/** For relays that are to be caught: a consumer in strict order waits for ever behind their mistakes. */
const STANDSTILL_TO_BE_CAUGHT_MS = 4_000;

/**
 * One run: the storm (writers, relays, consumers, and faults), the calm (no more faults, until everything has settled) and the verdict.
 * Null when it was interrupted. Nothing is left behind either way.
 */
export async function runChaos(options: ChaosOptions, surroundings: Surroundings): Promise<ChaosReport | null> {
  const stage = await setStage(options.relay);
  try {
    return await perform(options, stage, surroundings);
  } finally {
    await stage.strike();
  }
}

async function perform(
  options: ChaosOptions,
  stage: Stage,
  { signal: interrupted, enough: told, say }: Surroundings,
): Promise<ChaosReport | null> {
  const random = (name: string) => seeded(options.seed, name);
  const faults = new Map<string, number>();
  const injected = (kind: string): void => {
    faults.set(kind, (faults.get(kind) ?? 0) + 1);
    if (options.verbose) say(`fault: ${kind}`);
  };
  const taken = acceptance(DESTINATIONS);
  const ledger = emptyLedger();
  const destinationOf = new Map(Object.entries(stage.queue.urls).map(([name, url]) => [url, name]));
  const coin = random('window');
  const calls = callFaults({
    random: random('calls'),
    timeoutMs: TIMEOUT_MS,
    everyMs: options.callsEvery * 1000,
    now: () => performance.now(),
    outage: (ms) => void proxy.outage(ms),
    injected,
  });
  const proxy = await startFaultProxy({
    upstreamPort: stage.queue.port,
    plan: () => calls.next(),
    // Half of the repeats come as if the queue's window of five minutes were over, so that consumers meet them.
    rewrite(entry, { QueueUrl }) {
      if (!taken.has(destinationOf.get(QueueUrl) ?? '', entry) || coin() < 0.5) return entry;
      return { ...entry, MessageDeduplicationId: `${entry.MessageDeduplicationId}-${taken.repeats}` };
    },
    accepted: (queueUrl, entry, place) => taken.record(destinationOf.get(queueUrl) ?? '', entry, place),
  });
  const relays = startRelays({
    count: options.relays,
    program: stage.programs.relay,
    random: random('relays'),
    sweep: options.sweep !== 'off' && options.relay === 'ours',
    injected,
    common: {
      kind: options.relay,
      database: stage.config('sealed_relay'),
      queuePort: proxy.port,
      urls: stage.queue.urls,
      leaseSeconds: LEASE_SECONDS,
      timeoutMs: TIMEOUT_MS,
      verbose: options.verbose,
    },
  });
  const storm = new AbortController();
  const consuming = new AbortController();
  const failure = new AbortController();
  const guard = async (work: Promise<void>): Promise<void> => {
    try {
      await work;
    } catch (error) {
      failure.abort(error);
    }
  };
  // A busy machine takes a second to start a process; faults would meet nobody.
  for (let waited = 0; !relays.up && waited < STARTING_MS && !interrupted.aborted; waited += 20) await delay(20);
  const startedAt = performance.now();
  const seconds = (): number => (performance.now() - startedAt) / 1000;
  const { connections, eventsAtOnce } = isLong(options.events) ? WRITERS.long : WRITERS.short;
  const pool = stage.pool('sealed_writer', connections + 2);
  const aggregates = Math.min(10_000, Math.max(50, Math.round(options.events / 20)));
  let acknowledged = 0;
  const consumers = guard(
    runConsumerChild(
      stage.programs.consumer,
      {
        database: stage.config('sealed_ledger'),
        queuePort: stage.queue.port,
        urls: stage.queue.urls,
        seed: options.seed,
      },
      (report) => {
        if ('injected' in report) injected(report.injected);
        else acknowledged += report.acknowledged;
      },
      consuming.signal,
    ),
  );
  const writers = guard(
    runWriters({
      pool,
      connections,
      random,
      aggregates,
      eventsAtOnce,
      ledger,
      signal: storm.signal,
      mustWait: () => {
        const written = ledger.committed.size;
        // What is over the number keeps relays busy until every fault had its turn.
        const pace = written < options.events ? options.rate : Math.min(100, options.rate);
        const allowed =
          written < options.events
            ? pace * seconds()
            : options.events + pace * Math.max(0, seconds() - fullAt(written));
        return written >= allowed || Math.max(written * 1.3 - taken.events, taken.events - acknowledged) > BACKLOG;
      },
    }),
  );
  let fullSince: number | undefined;
  const fullAt = (written: number): number => {
    if (written >= options.events) fullSince ??= seconds();
    return fullSince ?? seconds();
  };
  const chaos = guard(
    runProcessFaults({
      random: random('processes'),
      relays,
      relayCount: options.relays,
      leaseSeconds: LEASE_SECONDS,
      everyMs: options.every * 1000,
      superuser: () => stage.connect('postgres'),
      crashPostgres: () => stage.crashPostgres(),
      async longTransaction() {
        try {
          await transact({ pool, aggregates, eventsAtOnce, ledger }, 'long transaction', random(`long ${seconds()}`));
        } catch (error) {
          if (!isFault(error)) throw error;
        }
      },
      injected,
      signal: storm.signal,
    }),
  );

  try {
    let said: Progress = { seconds: 0, events: 0, deliveries: 0, acknowledged: 0 };
    const report = (): void => {
      if (seconds() - said.seconds < PROGRESS_SECONDS) return;
      const now = { seconds: seconds(), events: ledger.committed.size, deliveries: taken.events, acknowledged };
      say(progressLine(options.events, now, said));
      said = now;
    };
    const caught = (): boolean => options.relay !== 'ours' && taken.suspicions >= CAUGHT;
    const enough = (): boolean =>
      ledger.committed.size >= options.events &&
      [...PROCESS_FAULTS, ...CALL_FAULTS].every((kind) => faults.has(kind)) &&
      (options.sweep !== 'whole' || options.relay !== 'ours' || relays.swept);
    const over = (): boolean => interrupted.aborted || failure.signal.aborted || caught();
    const early = (): boolean => told?.aborted === true;
    while (!over() && !early() && !enough() && seconds() < options.minutes * 60) {
      await delay(50);
      report();
    }
    const complete = enough();
    storm.abort();
    calls.calm();
    relays.calm();
    await Promise.all([writers, chaos]);
    const stormSeconds = seconds();
    if (!over()) {
      // The terminal's Ctrl-C went to the server as well.
      if (early()) await stage.crashPostgres();
      say(`${stormSeconds.toFixed(0)} s: no more faults; waiting until everything has settled`);
      await settled(
        stage,
        taken,
        options.relay === 'ours' ? STANDSTILL_MS : STANDSTILL_TO_BE_CAUGHT_MS,
        interrupted,
        say,
      );
    }
    const calmSeconds = seconds() - stormSeconds;
    await relays.stop();
    consuming.abort();
    await consumers;
    if (interrupted.aborted) return null;
    if (failure.signal.aborted) throw failure.signal.reason;
    return await conclude(options, stage, taken, ledger, faults, relays, complete, {
      storm: stormSeconds,
      calm: calmSeconds,
    });
  } finally {
    storm.abort();
    consuming.abort();
    await Promise.all([writers, chaos, consumers, relays.stop()]);
    await proxy.close();
  }
}

async function conclude(
  { events: least, relays: count, seed, minutes, relay, rate, sweep, every, callsEvery }: ChaosOptions,
  stage: Stage,
  taken: Acceptance,
  ledger: Ledger,
  faults: ReadonlyMap<string, number>,
  relays: {
    readonly points: { readonly seen: ReadonlySet<string>; readonly killed: ReadonlySet<string> };
    starts: number;
  },
  complete: boolean,
  seconds: { storm: number; calm: number },
): Promise<ChaosReport> {
  const db = await stage.connect('postgres');
  try {
    const { verdict, events, deliveries, examples } = await judge(db, taken, ledger);
    const { seen, killed } = relays.points;
    return {
      ok: Object.values(verdict).every((count) => count === 0),
      complete,
      options: { events: least, relays: count, seed, minutes, relay, rate, sweep, every, callsEvery },
      verdict,
      events: {
        committed: events,
        rolledBack: ledger.rolledBack.size,
        ambiguous: ledger.ambiguous.size,
        deliveries,
        repeats: taken.repeats,
      },
      transactions: sorted(ledger.kinds),
      faults: sorted(faults),
      relayStarts: relays.starts,
      awaitPoints: {
        seen: seen.size,
        killed: [...killed].sort(),
        missed: [...seen].filter((point) => !killed.has(point)).sort(),
      },
      seconds,
      deliveriesPerSecond: taken.events / (seconds.storm + seconds.calm),
      examples,
    };
  } finally {
    await db.end();
  }
}

function sorted(counts: ReadonlyMap<string, number>): Record<string, number> {
  return Object.fromEntries([...counts].sort(([a], [b]) => (a < b ? -1 : 1)));
}
