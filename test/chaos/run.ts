import { setTimeout as delay } from 'node:timers/promises';
import { type MailProvider, startMailProvider } from '../../local/mail-provider/server.ts';
import { acceptance } from './acceptance.ts';
import { callFaults } from './call-faults.ts';
import { calmDown, NO_CALM } from './calm.ts';
import { CONSUMERS, HANDLER_FAULTS, ORDERED } from './catalogue.ts';
import { conclude } from './conclude.ts';
import { startConsumers } from './consumer-processes.ts';
import { redriveAlways } from './dead-letters.ts';
import { everyFault, replaysAll } from './every-fault.ts';
import { startFaultProxy } from './fault-proxy.ts';
import { type ChaosOptions, isLong } from './options.ts';
import { pace } from './pace.ts';
import { runProcessFaults } from './process-faults.ts';
import { type Progress, progressLine } from './progress.ts';
import { runProviderFaults } from './provider-faults.ts';
import { seeded } from './random.ts';
import { startRelays } from './relays.ts';
import { runReplays } from './replays.ts';
import type { ChaosReport } from './report.ts';
import { setStage, type Stage } from './stage.ts';
import { accountName, emptyLedger, handlerFaultsOf, isFault, runWriters, transact } from './writers.ts';

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
const CONSUMER_PROCESSES = 2;
const PROGRESS_SECONDS = 10;
/** A relay that is to be caught has been caught after so many breaks. */
const CAUGHT = 2;
/** Relays that are not up by then are not waited for. Milliseconds. */
const STARTING_MS = 15_000;
/** What nobody works on for so long stays as it is: longer than the longest wait of a relay. Milliseconds. */
const STANDSTILL_MS = 45_000;
/** For relays and consumers that are to be caught: what waits behind their mistakes waits for ever. */
const STANDSTILL_TO_BE_CAUGHT_MS = 4_000;
const IDLE_TO_BE_CAUGHT_MS = 2_000;
/**
 * One run: the storm (writers, relays, consumers, and faults), the calm (no more faults, until everything has settled), the operator, and the
 * verdict. Null when it was interrupted. Nothing is left behind either way.
 */
export async function runChaos(options: ChaosOptions, surroundings: Surroundings): Promise<ChaosReport | null> {
  const provider = await startMailProvider();
  try {
    const stage = await setStage(options.relay, options.consumer);
    try {
      return await perform(options, stage, provider, surroundings);
    } finally {
      await stage.strike();
    }
  } finally {
    await provider.close();
  }
}

async function perform(
  options: ChaosOptions,
  stage: Stage,
  provider: MailProvider,
  { signal: interrupted, enough: told, say }: Surroundings,
): Promise<ChaosReport | null> {
  const random = (name: string) => seeded(options.seed, name);
  const isOurs = options.relay === 'ours' && options.consumer === 'ours';
  const faults = new Map<string, number>();
  const injected = (kind: string, times = 1): void => {
    faults.set(kind, (faults.get(kind) ?? 0) + times);
    if (options.verbose) say(`fault: ${kind}`);
  };
  const errors: string[] = [];
  const taken = acceptance(CONSUMERS, ORDERED);
  const ledger = emptyLedger();
  const destinationOf = new Map(Object.entries(stage.queue.urls).map(([name, url]) => [url, name]));
  const coin = random('window');
  const calls = callFaults({
    random: random('calls'),
    timeoutMs: TIMEOUT_MS,
    everyMs: options.callsEvery * 1000,
    now: () => performance.now(),
    outage: (ms) => void proxy.outage(ms),
    injected: (kind) => injected(kind),
  });
  const proxy = await startFaultProxy({
    upstreamPort: stage.queue.port,
    plan: () => calls.next(),
    // Half of the repeats come as if the queue's window of five minutes were over, so that consumers meet them.
    rewrite(entry, { QueueUrl }) {
      if (entry.MessageDeduplicationId === undefined) return entry;
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
    injected: (kind) => injected(kind),
    unexplained: (error) => errors.push(error),
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
  let acknowledged = 0;
  const consumers = startConsumers({
    count: CONSUMER_PROCESSES,
    program: stage.programs.consumer,
    common: {
      kind: options.consumer,
      database: stage.config('sealed_ledger'),
      queuePort: stage.queue.port,
      urls: stage.queue.urls,
      providerUrl: provider.url,
      redelivered: isLong(options.events) ? 0.1 : 1,
      seed: options.seed,
    },
    onReport: (report) => {
      if ('injected' in report) injected(report.injected, report.times);
      else if ('unexplained' in report) errors.push(`consumers ${report.unexplained}`);
      else acknowledged += report.acknowledged;
    },
  });
  const storm = new AbortController();
  const redriving = new AbortController();
  const failure = new AbortController();
  const guard = async <T>(work: Promise<T>): Promise<T | undefined> => {
    try {
      return await work;
    } catch (error) {
      failure.abort(error);
      return undefined;
    }
  };
  void guard(consumers.broken);
  // A busy machine takes a second to start a process; faults would meet nobody.
  for (let waited = 0; !relays.up && waited < STARTING_MS && !interrupted.aborted; waited += 20) await delay(20);
  const startedAt = performance.now();
  const seconds = (): number => (performance.now() - startedAt) / 1000;
  const { connections, eventsAtOnce } = isLong(options.events) ? WRITERS.long : WRITERS.short;
  const pool = stage.pool('sealed_writer', connections + 2);
  const aggregates = Math.min(10_000, Math.max(50, Math.round(options.events / 20)));
  // Rare in a long run: behind each poison its aggregate waits for the operator.
  const oneOf = Math.min(2_000, Math.max(25, options.events / 150));
  const kinds = options.relay === 'ours' ? HANDLER_FAULTS : [];
  const writing = { pool, aggregates, eventsAtOnce, ledger };
  const handlerFault = (name: string) => handlerFaultsOf(random(name), oneOf, kinds);
  const writers = guard(
    runWriters({
      ...writing,
      handlerFault: handlerFault('handlers'),
      connections,
      random,
      signal: storm.signal,
      mustWait: pace(options, ledger, taken, () => acknowledged, seconds),
    }),
  );
  const chaos = guard(
    runProcessFaults({
      random: random('processes'),
      relays,
      consumers,
      relayCount: options.relays,
      leaseSeconds: LEASE_SECONDS,
      everyMs: options.every * 1000,
      superuser: () => stage.connect('postgres'),
      crashPostgres: () => stage.crashPostgres(),
      async longTransaction() {
        const name = `long ${seconds()}`;
        try {
          await transact({ ...writing, handlerFault: handlerFault(name) }, 'long transaction', random(name));
        } catch (error) {
          if (!isFault(error)) throw error;
        }
      },
      injected: (kind) => injected(kind),
      progress: () => taken.events + acknowledged,
      signal: storm.signal,
    }),
  );
  const away = AbortSignal.any([interrupted, failure.signal]);
  const providing = guard(
    runProviderFaults({
      provider,
      random: random('provider'),
      everyMs: options.callsEvery * 1000,
      injected: (kind) => injected(kind),
      signal: AbortSignal.any([storm.signal, away]),
    }),
  );
  const redrives = guard(redriveAlways(stage.queue, injected, redriving.signal));
  const replays = guard(
    isOurs
      ? runReplays({
          stage,
          random: random('replays'),
          // The busiest of a long run has ten thousand events, and its messages come one by one.
          aggregate: (draw) => accountName(draw, aggregates, isLong(options.events) ? 1 : 3),
          mayBegin: () => acknowledged > options.events / 5,
          all: replaysAll(options),
          everyMs: options.every * 1000,
          injected: (kind) => injected(kind),
          calm: storm.signal,
          signal: away,
        })
      : Promise.resolve(0),
  );

  try {
    const missing = (): string[] => everyFault(options).filter((kind) => !faults.has(kind));
    let said: Progress = { seconds: 0, events: 0, deliveries: 0, acknowledged: 0, waitsFor: [] };
    const report = (): void => {
      if (seconds() - said.seconds < PROGRESS_SECONDS) return;
      const now = {
        seconds: seconds(),
        events: ledger.committed.size,
        deliveries: taken.events,
        acknowledged,
        waitsFor: isOurs ? missing() : [],
      };
      say(progressLine(options.events, now, said));
      said = now;
    };
    const caught = (): boolean => options.relay !== 'ours' && taken.suspicions >= CAUGHT;
    const enough = (): boolean =>
      ledger.committed.size >= options.events &&
      (!isOurs || (missing().length === 0 && (options.sweep !== 'whole' || relays.swept)));
    const over = (): boolean => interrupted.aborted || failure.signal.aborted || caught();
    const early = (): boolean => told?.aborted === true;
    while (!over() && !early() && !enough() && seconds() < options.minutes * 60) {
      await delay(50);
      report();
    }
    const complete = enough();
    if (!complete && isOurs) say(`not met: ${missing().join('; ')}`);
    storm.abort();
    calls.calm();
    relays.calm();
    await Promise.all([writers, chaos, providing]);
    const stormSeconds = seconds();
    // The terminal's Ctrl-C went to the server as well.
    if (early() && !over()) await stage.crashPostgres();
    say(`${stormSeconds.toFixed(0)} s: no more faults; waiting until everything has settled`);
    const replaysUnfinished = (await replays) ?? 0;
    const standstillMs = {
      busy: options.relay === 'ours' ? STANDSTILL_MS : STANDSTILL_TO_BE_CAUGHT_MS,
      idle: isOurs ? STANDSTILL_MS : IDLE_TO_BE_CAUGHT_MS,
    };
    const waits = { stage, taken, standstillMs, interrupted, say };
    const calm = over() ? NO_CALM : await calmDown(waits, random('operator'));
    redriving.abort();
    await redrives;
    const calmSeconds = seconds() - stormSeconds;
    await relays.stop();
    await consumers.stop();
    if (interrupted.aborted) return null;
    if (failure.signal.aborted) throw failure.signal.reason;
    return await conclude({
      ...calm,
      options,
      stage,
      taken,
      ledger,
      faults,
      relays,
      provider,
      replaysUnfinished,
      errors,
      complete,
      seconds: { storm: stormSeconds, calm: calmSeconds },
    });
  } finally {
    storm.abort();
    redriving.abort();
    await Promise.all([writers, chaos, providing, redrives, consumers.stop(), relays.stop()]);
    await proxy.close();
  }
}
