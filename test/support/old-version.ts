import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

const git = (...args: readonly string[]): string =>
  execFileSync('git', ['-C', ROOT, ...args], { encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 }).trim();

/** Migrations of a version, each with the hash of its content. */
function migrationsOf(revision: string): string[] {
  return git('ls-tree', '-r', revision, 'migrations')
    .split('\n')
    .filter((line) => line !== '');
}

/**
 * The version whose code must run on the schema of today: the last tag, else the oldest version whose migrations are all still there as they were. Undefined
 * without a history, as in a shallow clone.
 */
export function oldVersion(): string | undefined {
  try {
    const [tag] = git('tag', '--merged', 'HEAD', '--sort=-creatordate').split('\n');
    if (tag !== undefined && tag !== '') return tag;
    const now = new Set(migrationsOf('HEAD'));
    return git('rev-list', '--first-parent', '--reverse', 'HEAD')
      .split('\n')
      .find((revision) => {
        const then = migrationsOf(revision);
        return then.length > 0 && then.every((line) => now.has(line));
      });
  } catch {
    return undefined;
  }
}

/**
 * The files of an old version with the migrations of today, in a directory of their own.
 *
 * @returns the directory, and what removes it
 */
export function oldVersionOnNewSchema(revision: string): { directory: string; remove: () => void } {
  const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-old-'));
  const archive = execFileSync('git', ['-C', ROOT, 'archive', revision], { maxBuffer: 256 * 1024 * 1024 });
  execFileSync('tar', ['-x', '-C', directory], { input: archive });
  rmSync(join(directory, 'migrations'), { recursive: true });
  cpSync(join(ROOT, 'migrations'), join(directory, 'migrations'), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(directory, 'node_modules'));
  return { directory, remove: () => rmSync(directory, { recursive: true, force: true }) };
}
