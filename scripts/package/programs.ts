import { chmodSync, copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';
import { TARGET } from './library.ts';

/** The commands that the package brings: `npx sealed-outbox generate …`. */
const COMMANDS = ['generate', 'migrate', 'ops'];

/** Writes `bin/`: the command line, and each command with all that it needs except what must be installed. @returns the files that went into it */
export async function buildPrograms(root: string, output: string): Promise<string[]> {
  const bin = join(output, 'bin');
  mkdirSync(bin, { recursive: true });
  const { metafile } = await build({
    metafile: true,
    entryPoints: Object.fromEntries(COMMANDS.map((name) => [name, join(root, 'cli', `${name}.ts`)])),
    outdir: bin,
    absWorkingDir: root,
    bundle: true,
    splitting: true,
    chunkNames: 'shared-[hash]',
    format: 'esm',
    platform: 'node',
    target: TARGET,
    mainFields: ['module', 'main'],
    // The compiled validators bring in a few functions of ajv's, found from here.
    external: ['pg', 'esbuild', 'ajv', 'ajv/*', 'ajv-formats'],
    inject: [join(root, 'scripts/package/node-20.ts')],
    banner: { js: "import{createRequire}from'node:module';const require=createRequire(import.meta.url);" },
    keepNames: true,
    legalComments: 'none',
    logLevel: 'warning',
  });
  const main = join(bin, 'sealed-outbox.js');
  copyFileSync(join(root, 'scripts/package/sealed-outbox.js'), main);
  chmodSync(main, 0o755);
  return Object.keys(metafile.inputs);
}
