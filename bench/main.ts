/**
 * Benchmarks. Each prints a table; figures with a goal say whether it was reached.
 *
 *   npm run bench                                   lists them
 *   npm run bench -- relay --quick --only append    one of them, a tenth of the size
 *   npm run bench -- consumer --quick               what an effect costs, and held events
 *   npm run bench -- janitor --quick                pruning under load
 *   npm run bench -- cold-import                    what a cold start costs
 *
 * How each is measured: docs/benchmarks.md.
 */
import type { Benchmark } from './harness/benchmark.ts';
import { consumerBenchmarks } from './consumer/index.ts';
import { readOptions, UsageError } from './harness/options.ts';
import { runBenchmarks } from './harness/run.ts';
import { janitorBenchmarks } from './janitor/index.ts';
import { runBenchmarks } from './harness/run.ts';
import { relayBenchmarks } from './relay/index.ts';

const USAGE = `Usage: npm run bench -- relay [--quick] [--only NAME,…] [--json FILE] [--report FILE] [--profile]
       npm run bench -- consumer [--quick] [--only NAME,…] [--json FILE] [--report FILE] [--profile]
       npm run bench -- janitor [--quick] [--only NAME,…] [--json FILE] [--report FILE] [--profile]
       npm run bench -- cold-import [runs]

  --quick        a tenth of the sizes: shows that everything works, its numbers are rough
  --only NAMES   these benchmarks alone, separated by commas
  --json FILE    writes the figures, again after every benchmark: [{ "name", "value", "unit", "goal", "ok" }]
  --report FILE  writes them as tables in Markdown, with date, commit and versions
  --profile      writes CPU profiles of the relay's or consumer's process into .local/profiles/

Benchmarks of the relay:
${list(relayBenchmarks)}

Benchmarks of the consumer (what its bundle costs: cold-import):
${list(consumerBenchmarks)}

Benchmarks of the janitor:
${list(janitorBenchmarks)}

Exit status: 0 when everything ran, whether or not goals were reached; 1 when something could not be measured.`;

const [subject, ...args] = process.argv.slice(2);
try {
  const benchmarks = SUBJECTS[subject ?? ''];
  if (subject === undefined || args.includes('--help') || subject === '--help') console.log(USAGE);
  else if (subject === 'relay') process.exitCode = await runBenchmarks(readOptions(args, relayBenchmarks));
  else if (subject === 'consumer') process.exitCode = await runBenchmarks(readOptions(args, consumerBenchmarks));
  else if (subject === 'janitor') process.exitCode = await runBenchmarks(readOptions(args, janitorBenchmarks));
  else if (subject === 'cold-import') {
    const { coldImport } = await import('./cold-import.ts');
    coldImport(Number(args[0] ?? 11));
  } else throw new UsageError(`There is no benchmark of "${subject}".`);
} catch (error) {
  if (error instanceof UsageError) console.error(`${error.message}\n\n${USAGE}`);
  else console.error(error);
  process.exitCode = 1;
}

function list(benchmarks: readonly Benchmark[]): string {
  return benchmarks.map(({ name, what }) => `  ${name.padEnd(14)}${what}`).join('\n');
}
