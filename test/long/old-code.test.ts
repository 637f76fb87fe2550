import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { oldVersion, oldVersionOnNewSchema, type OldReport, unexpectedFailures } from '../support/old-version.ts';

it('the code of the oldest version whose migrations still stand works on the schema of today', async ({ skip }) => {
  const revision = oldVersion();
  if (revision === undefined) return skip('there is no history of versions here, as in a shallow clone');
  const { directory, remove } = oldVersionOnNewSchema(revision);
  try {
    const run = async (...args: readonly string[]): Promise<void> => {
      const child = spawn(process.execPath, args, { cwd: directory, stdio: 'ignore' });
      await once(child, 'exit');
    };
    await run(join('scripts', 'generate.ts'));
    const file = join(directory, 'report.json');
    const vitest = join('node_modules', 'vitest', 'vitest.mjs');
    await run(vitest, 'run', '--project', 'integration', '--reporter=json', `--outputFile=${file}`);
    const report = JSON.parse(readFileSync(file, 'utf8')) as OldReport;
    expect(unexpectedFailures(report, directory)).toEqual([]);
    expect(report.numPassedTests).toBeGreaterThan(400);
  } finally {
    remove();
  }
});
