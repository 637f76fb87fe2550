import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { dirname, resolve } from 'node:path';
import type { Bench, Benchmark } from './benchmark.ts';
import { judge, table } from './figure.ts';
import { expectedMinutes, type Options, plan } from './options.ts';
import { stopChildren } from './process.ts';
import { jsonOf, markdownOf, type Outcome, type Setting } from './report.ts';
import { type BenchServer, startServer } from './server.ts';

/** Minutes after which a benchmark is given up, or the others would never have their turn. */
const patience = (expected: number): number => 3 * expected + 5;

/** Runs what was chosen and writes the figures after each. Answers with the exit code. */
export async function runBenchmarks({ quick, profile, json, report, chosen }: Options): Promise<number> {
  const outcomes: Outcome[] = [];
  let setting: Setting | undefined;
  const write = (): void => {
    if (json !== undefined) writeFileSync(json, jsonOf(outcomes));
    const names = chosen.map(({ name }) => name);
    if (report !== undefined && setting !== undefined) writeFileSync(report, markdownOf(setting, outcomes, names));
  };
  // Before anything runs: after half an hour is a bad time to find that a file cannot be written.
  for (const file of [json, report]) if (file !== undefined) mkdirSync(dirname(resolve(file)), { recursive: true });
  write();
  const profileDirectory = profile ? resolve('.local/profiles') : undefined;
  if (profileDirectory !== undefined) mkdirSync(profileDirectory, { recursive: true });
  console.log(plan(chosen, quick));

  const interruption = new AbortController();
  const interrupted = interruption.signal;
  const starting = startServer();
  const stop = (signal: NodeJS.Signals): void => {
    if (interrupted.aborted) return;
    interruption.abort();
    console.log(`\n${signal}: ending; what was measured so far is kept`);
    void stopChildren()
      .then(async () => (await starting).stop())
      .finally(() => process.exit(signal === 'SIGTERM' ? 143 : 130));
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop);
  const server = await starting;
  try {
    setting = { ...machine(), date: new Date(), postgres: await server.version(), quick };
    write();
    for (const benchmark of chosen) {
      const outcome = await measure(benchmark, server, { quick, profileDirectory }, interrupted);
      if (interrupted.aborted) break;
      outcomes.push(outcome);
      write();
    }
  } finally {
    // Whoever was interrupted waits for the handler above to end the process.
    if (interrupted.aborted) await new Promise(() => {});
    await server.stop();
  }
  return summary(outcomes, quick);
}

async function measure(
  benchmark: Benchmark,
  server: BenchServer,
  options: Pick<Bench, 'quick' | 'profileDirectory'>,
  interrupted: AbortSignal,
): Promise<Outcome> {
  const { name, what } = benchmark;
  const startedAt = performance.now();
  const seconds = (): number => (performance.now() - startedAt) / 1000;
  const note = (text: string): void => console.log(`  · ${clock(seconds())} ${text}`);
  console.log(`\n${name}: ${what}${options.quick ? ' (quick)' : ''}`);
  const ticker = setInterval(() => note('…'), 60_000);
  const most = patience(expectedMinutes(benchmark, options.quick));
  const limit = Promise.withResolvers<never>();
  const watchdog = setTimeout(
    () => limit.reject(new Error(`it was given up after ${most.toFixed(0)} minutes`)),
    most * 60_000,
  );
  try {
    const figures = (await Promise.race([benchmark.run({ server, note, ...options }), limit.promise])).map(judge);
    console.log(`${table(figures)}\n${seconds().toFixed(0)} s`);
    const outcome = { benchmark: name, figures, seconds: seconds() };
    jsonOf([outcome]); // Figures that it cannot tell apart fail this benchmark, and not those after it.
    return outcome;
  } catch (error) {
    const failure = error instanceof Error ? error.message : String(error);
    if (!interrupted.aborted) {
      // The others are still worth their time.
      console.error(`${name} could not be measured:`, error);
      await stopChildren();
      await server.clear();
    }
    return { benchmark: name, figures: [], seconds: seconds(), failure };
  } finally {
    clearInterval(ticker);
    clearTimeout(watchdog);
  }
}

function summary(outcomes: readonly Outcome[], quick: boolean): number {
  const judged = outcomes.flatMap(({ figures }) => figures).filter(({ ok }) => ok !== null);
  const reached = judged.filter(({ ok }) => ok === true).length;
  console.log(`\n${reached} of ${judged.length} goals reached${quick ? ' (quick: rough)' : ''}.`);
  const failed = outcomes.filter(({ failure }) => failure !== undefined);
  for (const { benchmark, failure } of failed) console.log(`Not measured: ${benchmark}: ${failure}`);
  return failed.length === 0 ? 0 : 1;
}

function machine(): Pick<Setting, 'commit' | 'node' | 'cores'> {
  const git = (...args: string[]): string => {
    try {
      return execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
    } catch {
      return '';
    }
  };
  // The report itself is one of the files; rewriting it changes nothing that is measured.
  const changed = git('status', '--porcelain', '--', '.', ':!docs') === '' ? '' : '+';
  return {
    commit: `${git('rev-parse', '--short', 'HEAD') || 'unknown'}${changed}`,
    node: process.versions.node,
    cores: availableParallelism(),
  };
}

function clock(seconds: number): string {
  return `${Math.floor(seconds / 60)}:${String(Math.floor(seconds % 60)).padStart(2, '0')}`;
}
