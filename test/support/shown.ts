import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

/** A test that shows what a cell of a document says: its file, and words of its title. */
export type Shown = readonly [file: string, words: string];

/** Those of them that do not exist, or say something else now. */
export function missingTests(shown: readonly Shown[]): Shown[] {
  return shown.filter(([file, words]) => {
    const path = join(ROOT, file);
    return !existsSync(path) || !readFileSync(path, 'utf8').includes(words);
  });
}
