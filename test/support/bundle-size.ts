import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

export interface BundleSize {
  /** Bytes that importing `index.mjs` reads: a cold start. */
  readonly loaded: number;
  /** Bytes of all code, with what is loaded when it is first needed. */
  readonly all: number;
}

/** What esbuild writes for an import that is not put off. */
const IMPORT = /\b(?:from|import)"\.\/([^"]+\.mjs)"/g;

/** Names of the files of a function's code that importing `index.mjs` reads. */
export function coldFiles(directory: string): ReadonlySet<string> {
  const loaded = new Set(['index.mjs']);
  for (const name of loaded) {
    for (const [, imported = ''] of readFileSync(join(directory, name), 'utf8').matchAll(IMPORT)) loaded.add(imported);
  }
  return loaded;
}

/** Sizes of a function's code in `directory`, without its source maps. */
export function bundleSize(directory: string): BundleSize {
  const all = readdirSync(directory).filter((name) => name.endsWith('.mjs'));
  const sum = (names: Iterable<string>): number =>
    [...names].reduce((bytes, name) => bytes + statSync(join(directory, name)).size, 0);
  return { loaded: sum(coldFiles(directory)), all: sum(all) };
}
