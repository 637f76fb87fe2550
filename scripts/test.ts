import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { parseTestArguments, SUITES, type Suite } from './test/arguments.ts';
import { countedLine, type RunOutcome, summarize } from './test/summary.ts';
import { leftIn, temporaryDirectory } from './test/temporary.ts';
import { runChild } from './child.ts';

const HELP = `npm test -- [suite…] [vitest arguments…]

Runs the tests with what they need and counts them. Suites:
  unit         pure functions, no network
  integration  a real PostgreSQL, an SQS in the process
  contract     publishers against LocalStack (needs Python 3.11 or later; SEALED_OUTBOX_LOCALSTACK=container: a Docker engine)
  infra        the CloudFormation templates
  e2e          the stack deployed to the local cloud (needs Python 3.11 or later)
  long         full sizes and soaks, up to 75 minutes (npm run test:long)

Without a suite: all but long. Everything else goes to vitest, for example
  npm test -- unit integration -t "holds later events"
  npm test -- integration test/integration/relay.test.ts

The last line counts the tests from vitest's own report. The exit code is 0 only if every test passed, no suite was empty
and vitest itself ended well.`;

const REPORTS = join('.local', 'reports');

/** The files of some suites need different kinds of workers: vitest's projects (`vitest.config.ts`). */
const PROJECTS: Partial<Record<Suite, readonly string[]>> = { integration: ['integration', 'integration-alone'] };

/**
 * The suites share two runs of vitest. The second has the local cloud, whose tests measure first, beside the few of their own suite; then they
 * wait most of the time, for alarms, and the templates are made beside them.
 */
function groups(suites: readonly Suite[]): Suite[][] {
  const besideTheCloud = (suite: Suite): boolean => suite === 'e2e' || suite === 'infra';
  const second = suites.filter(besideTheCloud);
  return [suites.filter((suite) => !besideTheCloud(suite)), second].filter((group) => group.length > 0);
}

async function runGroup(
  group: readonly Suite[],
  vitestArguments: readonly string[],
  TMPDIR: string,
): Promise<RunOutcome & { readonly interrupted: boolean }> {
  const report = join(REPORTS, `${group.join('-')}.json`);
  const skipped = join(REPORTS, `${group.join('-')}-skipped.json`);
  rmSync(report, { force: true });
  rmSync(skipped, { force: true });
  const { code, interruptedBy } = await runChild(
    process.execPath,
    [
      join('node_modules', 'vitest', 'vitest.mjs'),
      'run',
      ...group.flatMap((suite) => (PROJECTS[suite] ?? [suite]).flatMap((project) => ['--project', project])),
      // A filter need not match in every suite. Without one, a file without a test is a mistake.
      ...(vitestArguments.length > 0 ? ['--passWithNoTests'] : []),
      '--reporter=default',
      '--reporter=json',
      `--outputFile.json=${report}`,
      '--reporter=./scripts/test/skipped-reporter.ts',
      ...vitestArguments,
    ],
    { env: { SKIPPED_TESTS_FILE: skipped, TMPDIR } },
  );
  return {
    suites: group,
    code,
    report: readJson(report),
    skipped: readJson(skipped),
    interrupted: interruptedBy !== null,
  };
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return null;
  }
}

async function main(words: readonly string[]): Promise<number> {
  const parsed = parseTestArguments(words);
  if (parsed.help) {
    console.log(HELP);
    return 0;
  }
  mkdirSync(REPORTS, { recursive: true });
  const generated = await runChild(process.execPath, [join('scripts', 'generate.ts')]);
  if (generated.code !== 0) {
    console.log('FAILED npm run generate: no test was run.\n0 passed, 1 failed, 0 skipped');
    return 1;
  }
  const suites = parsed.suites.length > 0 ? parsed.suites : SUITES.filter((suite) => suite !== 'long');
  const temporary = temporaryDirectory();
  const outcomes: RunOutcome[] = [];
  for (const group of groups(suites)) {
    console.log(`\nRunning ${group.join(', ')} …`);
    const started = Date.now();
    const outcome = await runGroup(group, parsed.rest, temporary);
    outcomes.push(outcome);
    if (outcome.interrupted) break;
    console.log(`Ran ${group.join(', ')} in ${((Date.now() - started) / 1000).toFixed(1)} s.`);
  }
  const left = leftIn(temporary);
  if (left.length > 0) console.log(`Tests left in their temporary directory, which is removed: ${left.join(', ')}`);
  rmSync(temporary, { recursive: true, force: true });
  const summary = summarize(outcomes, { root: process.cwd(), filtered: parsed.rest.length > 0 });
  for (const line of summary.lines) console.log(line);
  console.log(countedLine(summary));
  return summary.ok ? 0 : 1;
}

process.exitCode = await main(process.argv.slice(2));
