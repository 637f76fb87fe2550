import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { bundle, bundleAhead, type Entry, ROOT } from '../../infra/constructs/bundle.ts';
import { bundleSize } from '../support/bundle-size.ts';

// Below the repository, where packages are found.
mkdirSync(join(ROOT, '.cache'), { recursive: true });
const folder = mkdtempSync(join(ROOT, '.cache', 'bundle-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A bundle's files, and what is in them. */
function bundled(name: string, entry: Entry): Record<string, string> {
  const directory = join(folder, name);
  bundle(entry, directory);
  return Object.fromEntries(readdirSync(directory).map((file) => [file, readFileSync(join(directory, file), 'utf8')]));
}

/** Somebody's function. */
function written(name: string, source: string): string {
  const path = join(folder, `${name}.ts`);
  writeFileSync(path, source);
  return path;
}

/** Uses what bundles leave out as a rule. */
const ASSUMES_A_ROLE =
  "import { fromTemporaryCredentials } from '@aws-sdk/credential-providers';\n" +
  "export const handler = fromTemporaryCredentials({ params: { RoleArn: 'arn' } });";

describe('a bundle', () => {
  it('is the same, made ahead or when it is asked for', async () => {
    const entries = [{ own: 'monitor' }, written('assumes-too', ASSUMES_A_ROLE)] as const;
    const now = entries.map((entry, index) => bundled(`now-${index}`, entry));
    await bundleAhead(entries);
    expect(entries.map((entry, index) => bundled(`ahead-${index}`, entry))).toEqual(now);
  });

  it('keeps what is imported later out of what a cold start reads', () => {
    written('later', `export const later = ${JSON.stringify('x'.repeat(10_000))};`);
    const entry = written('now', "export const handler = async () => (await import('./later.ts')).later;");
    bundle(entry, join(folder, 'two-files'));
    const { loaded, all } = bundleSize(join(folder, 'two-files'));
    expect(loaded).toBeLessThan(1_000);
    expect(all).toBeGreaterThan(10_000);
  });

  it.each([
    [
      "import util from 'node:util'; import { env } from 'node:process'; console.log(util.inspect(env.NONE));",
      'undefined',
    ],
    [
      "import { isDate } from 'node:util/types'; import * as util from 'node:util'; console.log(isDate(1), util.format(1));",
      'false 1',
    ],
    ["const { inspect } = require('util'); console.log(inspect(1));", '1'],
  ])("reads of Node.js's modules the names that it uses: %s", (source, output) => {
    const loaded = 'process.moduleLoadList.filter((name) => /worker_threads|parse_args/.test(name))';
    const entry = written('names', `${source} console.log(${loaded});`);
    const directory = mkdtempSync(join(folder, 'names-'));
    bundle(entry, directory);
    const { stdout } = spawnSync(process.execPath, [join(directory, 'index.mjs')], { encoding: 'utf8', env: {} });
    expect(stdout).toBe(`${output}\n[]\n`);
  });

  it('can ask for any name of them later', () => {
    const entry = written(
      'any-name',
      "const util = await import('node:util'); console.log(util.parseArgs.name, util.default.format(1));",
    );
    const directory = join(folder, 'any-name');
    bundle(entry, directory);
    const { stdout } = spawnSync(process.execPath, [join(directory, 'index.mjs')], { encoding: 'utf8', env: {} });
    expect(stdout).toBe('parseArgs 1\n');
  });

  it('holds the whole of the sources of credentials where a function asks for one of them', () => {
    const files = bundled('assumes', written('assumes', ASSUMES_A_ROLE));
    const code = Object.values(files).join('\n');
    expect(code).toContain('AssumeRole');
    expect(code).not.toMatch(/import\("@|from"@/);
  });
});
