// Runs after every `npm ci` (the `prepare` script): installs the git hooks where there is a repository and lefthook, and
// never fails an installation. A tarball, a CI machine and a production install have no use for hooks.

import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';

const lefthook = join('node_modules', '.bin', 'lefthook');
if (!process.env.CI && existsSync('.git') && existsSync(lefthook)) {
  const { status } = spawnSync(lefthook, ['install'], { stdio: 'ignore', timeout: 10_000 });
  if (status !== 0) console.warn('The git hooks were not installed: run npx lefthook install to see why.');
}
