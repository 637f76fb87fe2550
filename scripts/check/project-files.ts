import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { join, relative, sep } from 'node:path';

const NOT_OURS = new Set(['node_modules', 'dist', 'cdk.out', 'coverage', '.git', '.local', '.cache']);

/**
 * The files of the project, relative and with `/`: what git tracks or would track, so that a new file is checked before
 * it is added. Without git (a source archive) every file that is not built or installed.
 */
export function projectFiles(root: string): string[] {
  if (!existsSync(join(root, '.git'))) {
    return readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(root, join(entry.parentPath, entry.name)).split(sep).join('/'))
      .filter((path) => !path.split('/').some((part) => NOT_OURS.has(part)));
  }
  const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  return execFileSync('git', list, { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 * 1024 })
    .split('\0')
    .filter((path) => path !== '' && existsSync(join(root, path)));
}
