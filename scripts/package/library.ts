import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build, transform } from 'esbuild';
import { DOORS, outputName } from './doors.ts';

/** The lowest Node that the package runs on. */
export const TARGET = 'node20.19';

/**
 * Writes the library's JavaScript: `esm/`, one file for each door and what several of them share in files of its own, and `cjs/`, the same files
 * for `require`. A class stands in one file of each, so that `instanceof` holds between doors. `@middy/core` and `uuid` go in: they are ES modules only, which
 * `require` does not reach.
 *
 * @param external names of the packages that stay imports
 * @returns the files that went into it
 */
export async function buildLibrary(root: string, output: string, external: readonly string[]): Promise<string[]> {
  const entries = Object.entries(DOORS).map(([door, file]) => [outputName(door), join(root, file)]);
  const { metafile } = await build({
    metafile: true,
    entryPoints: {
      ...Object.fromEntries(entries),
      'lambda-credentials': join(root, 'infra/constructs/lambda-credentials.ts'),
    },
    outdir: join(output, 'esm'),
    absWorkingDir: root,
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: TARGET,
    mainFields: ['module', 'main'],
    external: external.flatMap((name) => [name, `${name}/*`]),
    inject: [join(root, 'scripts/package/node-20.ts')],
    chunkNames: 'shared-[hash]',
    // An error's name is its class's.
    keepNames: true,
    legalComments: 'none',
    logLevel: 'warning',
  });
  await toCommonJs(join(output, 'esm'), join(output, 'cjs'));
  return Object.keys(metafile.inputs);
}

async function toCommonJs(from: string, to: string): Promise<void> {
  mkdirSync(to, { recursive: true });
  writeFileSync(join(to, 'package.json'), '{ "type": "commonjs" }\n');
  const names = readdirSync(from).filter((name) => name.endsWith('.js'));
  const files = names.map(async (name) => {
    const { code } = await transform(readFileSync(join(from, name), 'utf8'), {
      format: 'cjs',
      platform: 'node',
      target: TARGET,
      loader: 'js',
      define: { 'import.meta.dirname': '__dirname' },
    });
    writeFileSync(join(to, name), code);
  });
  await Promise.all(files);
}
