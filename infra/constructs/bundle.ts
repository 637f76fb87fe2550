import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildSync } from 'esbuild';

/** The repository's root, with a slash: entries are found from here, wherever the command was started. */
export const ROOT = fileURLToPath(new URL('../../', import.meta.url));

/**
 * Makes a function's code in `outputDirectory`: `index.mjs`, its source map, and copies of `directories`.
 *
 * esbuild is called directly and not through CDK's `NodejsFunction`, which starts `npx` for each function: 0.7 s more for each
 * of the five.
 *
 * @param entry TypeScript file, from the repository's root
 * @param directories directories, from the repository's root, that are put beside the bundle under the same name
 */
export function bundle(entry: string, outputDirectory: string, directories: readonly string[] = []): void {
  buildSync({
    entryPoints: [join(ROOT, entry)],
    outfile: join(outputDirectory, 'index.mjs'),
    absWorkingDir: ROOT,
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    // ES modules first: esbuild cannot drop unused parts of CommonJS.
    mainFields: ['module', 'main'],
    alias: { '@aws-sdk/credential-provider-node': join(ROOT, 'infra/constructs/lambda-credentials.ts') },
    minify: true,
    // Beside the bundle, without the sources' text: names and lines for stack traces.
    sourcemap: true,
    sourcesContent: false,
    // pg is CommonJS and calls require() for Node's own modules; an ES module has none.
    banner: { js: "import{createRequire}from'node:module';const require=createRequire(import.meta.url);" },
    logLevel: 'warning',
  });
  for (const name of directories) cpSync(join(ROOT, name), join(outputDirectory, name), { recursive: true });
}
