import { join } from 'node:path';
import { installFailure, installReason } from './bootstrap.mjs';
import { runChild } from './child.ts';

/**
 * Packages that only one rare command needs lie in a folder of their own, with a manifest and a lock file, so that nobody else has to
 * install them. This installs them at their first use, and again when the lock file has changed.
 *
 * @throws Error that says what to do.
 */
export async function extraPackages(folder: string, write: (line: string) => void): Promise<void> {
  const root = join(import.meta.dirname, '..', folder);
  const reason = installReason(root);
  if (reason === null) return;
  write(`installing the packages of ${folder} with npm ci, because ${reason}`);
  const started = performance.now();
  const { code, output, interruptedBy } = await runChild('npm', ['ci', '--prefix', root], { quiet: true });
  if (interruptedBy !== null) throw new Error(`The installation of the packages of ${folder} was interrupted.`);
  if (code !== 0) throw new Error(`The packages of ${folder} are not installed. ${installFailure(output)}`);
  write(`installed in ${((performance.now() - started) / 1000).toFixed(1)} s`);
}
