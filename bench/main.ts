/**
 * Benchmarks. Each prints a table; figures with a goal say whether it was reached.
 *
 *   npm run bench                                   lists them
 *   npm run bench -- relay --quick --only append    one of them, a tenth of the size
 *   npm run bench -- consumer                       what an effect costs, and held events
 *   npm run bench -- janitor --quick                pruning under load
 *   npm run bench -- sealing                        what a sealed value costs, and its keys
 *   npm run bench -- aws                            cdk synth, and what a cold start costs, against their goals
 *   npm run bench -- cold-import                    what a cold start costs, with source maps too
 *
 * How each is measured: docs/benchmarks.md.
 */
import { awsBenchmarks } from './aws/index.ts';
import { consumerBenchmarks } from './consumer/index.ts';
import type { Benchmark } from './harness/benchmark.ts';
import { readOptions, UsageError } from './harness/options.ts';
import { runBenchmarks } from './harness/run.ts';
import { janitorBenchmarks } from './janitor/index.ts';
import { relayBenchmarks } from './relay/index.ts';
import { sealingBenchmarks } from './sealing/index.ts';

const SUBJECTS: Readonly<Record<string, readonly Benchmark[]>> = {
  relay: relayBenchmarks,
  consumer: consumerBenchmarks,
  janitor: janitorBenchmarks,
  sealing: sealingBenchmarks,
  aws: awsBenchmarks,
};

const listed = Object.entries(SUBJECTS).map(
  ([subject, benchmarks]) =>
    `Benchmarks of the ${subject}:\n${benchmarks.map(({ name, what }) => `  ${name.padEnd(14)}${what}`).join('\n')}`,
);

const USAGE = `Usage: npm run bench -- relay|consumer|janitor|sealing|aws [--quick] [--only NAME,…] [--json FILE] [--report FILE] [--profile]
       npm run bench -- cold-import [runs]

  --quick        a tenth of the sizes: shows that everything works, its numbers are rough
  --only NAMES   these benchmarks alone, separated by commas
  --json FILE    writes the figures, again after every benchmark: [{ "name", "value", "unit", "goal", "ok" }]
  --report FILE  writes them as tables in Markdown, with date, commit and versions
  --profile      writes CPU profiles of the relay's or the consumer's process into .local/profiles/

${listed.join('\n\n')}

Exit status: 0 when everything ran, whether or not goals were reached; 1 when something could not be measured.`;

const [subject, ...args] = process.argv.slice(2);
try {
  const benchmarks = SUBJECTS[subject ?? ''];
  if (subject === undefined || args.includes('--help') || subject === '--help') console.log(USAGE);
  else if (benchmarks !== undefined) process.exitCode = await runBenchmarks(readOptions(args, benchmarks));
  else if (subject === 'cold-import') {
    const { coldImport } = await import('./cold-import.ts');
    await coldImport(Number(args[0] ?? 11));
  } else throw new UsageError(`There is no benchmark of "${subject}".`);
} catch (error) {
  if (error instanceof UsageError) console.error(`${error.message}\n\n${USAGE}`);
  else console.error(error);
  process.exitCode = 1;
}
