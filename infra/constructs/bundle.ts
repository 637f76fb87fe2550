import { cpSync, existsSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { buildSync } from 'esbuild';

/** The library's own folder: this repository's root, or the installed package's. */
export const ROOT = libraryFolder(import.meta.dirname);

/** From a package its functions come bundled, and paths that are given begin where the command was started. */
const IS_PACKAGE = !existsSync(join(ROOT, 'infra'));

function libraryFolder(folder: string): string {
  return existsSync(join(folder, 'migrations', 'outbox')) ? folder : libraryFolder(dirname(folder));
}

/** The library's functions. In the package each is a folder of `functions/` with `index.mjs` and its source map. */
export const OWN_FUNCTIONS = {
  janitor: 'functions/janitor/index.ts',
  migrate: 'functions/migrate/any-catalogue.ts',
  monitor: 'functions/monitor/index.ts',
  operator: 'functions/operator/index.ts',
  relay: 'functions/relay/index.ts',
} as const;

/** A function of the library, or the path of somebody's. */
export type Entry = string | { readonly own: keyof typeof OWN_FUNCTIONS };

/** What is put beside a function's code. */
export interface Beside {
  /** Directories of the library, under the same name. */
  readonly directories?: readonly string[] | undefined;
  /** Files, by name. */
  readonly files?: Readonly<Record<string, string>> | undefined;
}

/** Absolute path of what is bundled, or of the folder that was. */
export function pathOf(entry: Entry): string {
  if (typeof entry === 'string') return resolve(IS_PACKAGE ? process.cwd() : ROOT, entry);
  return join(ROOT, IS_PACKAGE ? `functions/${entry.own}` : OWN_FUNCTIONS[entry.own]);
}

/**
 * Makes a function's code in `outputDirectory`: `index.mjs`, its source map, and what goes beside.
 *
 * esbuild is called directly and not through CDK's `NodejsFunction`, which starts `npx` for each function: 0.7 s more for each
 * of the five.
 *
 * @param entry a TypeScript or JavaScript file, from the repository's root; from where the command was started, where the library is a package
 */
export function bundle(entry: Entry, outputDirectory: string, { directories = [], files = {} }: Beside = {}): void {
  if (typeof entry !== 'string' && IS_PACKAGE) cpSync(pathOf(entry), outputDirectory, { recursive: true });
  else build(pathOf(entry), outputDirectory);
  for (const name of directories) cpSync(join(ROOT, name), join(outputDirectory, name), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(outputDirectory, name), text);
}

function build(entryPoint: string, outputDirectory: string): void {
  buildSync({
    entryPoints: [entryPoint],
    outfile: join(outputDirectory, 'index.mjs'),
    absWorkingDir: IS_PACKAGE ? process.cwd() : ROOT,
    bundle: true,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    // ES modules first: esbuild cannot drop unused parts of CommonJS.
    mainFields: ['module', 'main'],
    alias: {
      '@aws-sdk/credential-provider-node': join(
        ROOT,
        IS_PACKAGE ? 'esm/lambda-credentials.js' : 'infra/constructs/lambda-credentials.ts',
      ),
    },
    minify: true,
    // Beside the bundle, without the sources' text: names and lines for stack traces.
    sourcemap: true,
    sourcesContent: false,
    // pg is CommonJS and calls require() for Node's own modules; an ES module has none.
    banner: { js: "import{createRequire}from'node:module';const require=createRequire(import.meta.url);" },
    logLevel: 'warning',
  });
}
