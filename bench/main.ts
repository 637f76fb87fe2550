/**
 * Benchmarks. Each prints a table; figures with a goal say whether it was reached.
 *
 *   npm run bench                                   lists them
 *   npm run bench -- relay --quick --only append    one of them, a tenth of the size
 *   npm run bench -- cold-import                    what a cold start costs
 *
 * How each is measured: docs/benchmarks.md.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import type { Bench, Benchmark } from './harness/benchmark.ts';
import { type JudgedFigure, judge, table } from './harness/figure.ts';
import { stopChildren } from './harness/process.ts';
import { startServer } from './harness/server.ts';
import { relayBenchmarks } from './relay/index.ts';

const USAGE = `Usage: npm run bench -- relay [--quick] [--only NAME,…] [--json FILE] [--profile]
       npm run bench -- cold-import [runs]

  --quick       a tenth of the sizes: shows that everything works, its numbers are rough
  --only NAMES  these benchmarks alone, separated by commas
  --json FILE   writes the figures: [{ "name", "value", "unit", "goal", "ok" }]
  --profile     writes CPU profiles of the relay's process into .local/profiles/

Benchmarks of the relay:
${relayBenchmarks.map(({ name, what }) => `  ${name.padEnd(14)}${what}`).join('\n')}

Exit status: 0 when everything ran, whether or not goals were reached; 1 when something could not be measured.`;

function options(args: string[]): {
  quick: boolean;
  profile: boolean;
  json: string | undefined;
  chosen: readonly Benchmark[];
} {
  const { values } = parseArgs({
    args,
    options: {
      quick: { type: 'boolean', default: false },
      profile: { type: 'boolean', default: false },
      only: { type: 'string' },
      json: { type: 'string' },
    },
  });
  const only = values.only?.split(',').map((name) => name.trim());
  const unknown = only?.filter((name) => !relayBenchmarks.some((benchmark) => benchmark.name === name)) ?? [];
  if (unknown.length > 0) throw new Error(`--only: there is no benchmark called ${unknown.join(', ')}.`);
  const chosen = relayBenchmarks.filter(({ name }) => only === undefined || only.includes(name));
  return { quick: values.quick, profile: values.profile, json: values.json, chosen };
}

async function benchRelay(args: string[]): Promise<void> {
  const { quick, profile, json, chosen } = options(args);
  // Before anything runs: after an hour is a bad time to find that the file cannot be written.
  if (json !== undefined) writeFileSync(json, '[]\n');
  const profileDirectory = profile ? resolve('.local/profiles') : undefined;
  if (profileDirectory !== undefined) mkdirSync(profileDirectory, { recursive: true });
  const server = await startServer();
  const stop = (): void =>
    void stopChildren()
      .then(server.stop)
      .finally(() => process.exit(130));
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, stop);
  const figures: JudgedFigure[] = [];
  try {
    const bench: Bench = { server, quick, profileDirectory, note: (text) => console.log(`  · ${text}`) };
    for (const benchmark of chosen) {
      const start = performance.now();
      console.log(`\n${benchmark.name}: ${benchmark.what}${quick ? ' (quick)' : ''}`);
      try {
        const judged = (await benchmark.run(bench)).map(judge);
        figures.push(...judged.map((figure) => ({ ...figure, name: `${benchmark.name}: ${figure.name.trim()}` })));
        console.log(`${table(judged)}\n${((performance.now() - start) / 1000).toFixed(0)} s`);
      } catch (error) {
        // The others are still worth their time.
        console.error(`${benchmark.name} could not be measured:`, error);
        process.exitCode = 1;
        await stopChildren();
      }
      if (json !== undefined) writeFileSync(json, `${JSON.stringify(figures, null, 2)}\n`);
    }
  } finally {
    await server.stop();
  }
  const missed = figures.filter(({ ok }) => ok === false).length;
  const judgedCount = figures.filter(({ ok }) => ok !== null).length;
  console.log(`\n${judgedCount - missed} of ${judgedCount} goals reached${quick ? ' (quick: rough)' : ''}.`);
}

const [subject, ...args] = process.argv.slice(2);
try {
  if (subject === undefined || args.includes('--help') || subject === '--help') console.log(USAGE);
  else if (subject === 'relay') await benchRelay(args);
  else if (subject === 'cold-import') {
    const { coldImport } = await import('./cold-import.ts');
    coldImport(Number(args[0] ?? 11));
  } else throw new Error(`There is no benchmark of "${subject}".`);
} catch (error) {
  if (error instanceof Error && 'code' in error === false && !(error instanceof TypeError)) {
    console.error(`${error.message}\n\n${USAGE}`);
  } else console.error(error);
  process.exitCode = 1;
}
