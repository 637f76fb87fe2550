import { cpSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { build, type BuildOptions, type BuildResult, buildSync, context, type Plugin } from 'esbuild';

/** The library's own folder: this repository's root, or the installed package's. */
export const ROOT = libraryFolder(import.meta.dirname);

/** From a package its functions come bundled, and paths that are given begin where the command was started. */
const IS_PACKAGE = !existsSync(join(ROOT, 'infra'));

function libraryFolder(folder: string): string {
  return existsSync(join(folder, 'migrations', 'outbox')) ? folder : libraryFolder(dirname(folder));
}

/** The library's functions. In the package each is a folder of `functions/` with `index.mjs`, what that loads later, and source maps. */
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

/** A file of a bundle: its name, and what is in it. */
type Part = readonly [name: string, contents: Uint8Array];

const madeAhead = new Map<string, readonly Part[]>();

/**
 * Bundles while this process does something else: esbuild works in a process of its own. `bundle` then only writes the files. The sources are
 * read now, so an app calls it when it starts.
 *
 * One function after the other, by an esbuild that keeps what it has parsed: nine functions consist of 9,000 files, 1,300 different ones. The bundles are
 * those that are made for each anew, for half of the processor time.
 */
export async function bundleAhead(entries: readonly Entry[]): Promise<void> {
  let path = '';
  const entry: Plugin = {
    name: 'entry',
    setup(bundler) {
      bundler.onResolve({ filter: new RegExp(`^${ANY_ENTRY}$`) }, () => ({ path }));
    },
  };
  const one = await context({ ...settings(ANY_ENTRY, NEVER_USED), plugins: [entry] });
  try {
    for (path of new Set(entries.filter(isBundledHere).map(pathOf))) {
      const parts = partsOf(await one.rebuild()) ?? partsOf(await build(settings(path, [])));
      madeAhead.set(path, parts ?? []);
    }
  } finally {
    await one.dispose();
  }
}

/** Stands for the function that is bundled next, because a context has one entry for good. */
const ANY_ENTRY = 'the-function-that-is-next';

/**
 * Makes a function's code in `outputDirectory`: `index.mjs`, what it loads later in files of their own, a source map for each, and what goes beside.
 *
 * esbuild is called directly and not through CDK's `NodejsFunction`, which starts `npx` for each function: 0.7 s more for each.
 *
 * @param entry a TypeScript or JavaScript file, from the repository's root; from where the command was started, where the library is a package
 */
export function bundle(entry: Entry, outputDirectory: string, { directories = [], files = {} }: Beside = {}): void {
  const path = pathOf(entry);
  if (isBundledHere(entry)) {
    mkdirSync(outputDirectory, { recursive: true });
    for (const [name, contents] of madeAhead.get(path) ?? made(path))
      writeFileSync(join(outputDirectory, name), contents);
  } else cpSync(path, outputDirectory, { recursive: true });
  for (const name of directories) cpSync(join(ROOT, name), join(outputDirectory, name), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(join(outputDirectory, name), text);
}

function isBundledHere(entry: Entry): boolean {
  return typeof entry === 'string' || !IS_PACKAGE;
}

function made(entryPoint: string): readonly Part[] {
  return partsOf(buildSync(settings(entryPoint, NEVER_USED))) ?? partsOf(buildSync(settings(entryPoint, []))) ?? [];
}

/** Where paths begin, and where esbuild believes that it writes: so a source map names no folder of this machine. */
const WORKING_DIRECTORY = IS_PACKAGE ? process.cwd() : ROOT;

/**
 * The SDK's sources of credentials that Lambda does not have. It loads them when they are asked for; known to esbuild, each would be a file of its own,
 * and what they share with the rest would be cut into pieces: twelve files at a cold start and not seven, 11 KB more.
 */
const NEVER_USED = ['@aws-sdk/nested-clients', '@aws-sdk/credential-provider-*', '@smithy/credential-provider-imds'];

/**
 * Modules of Node.js that load others for names which hardly anybody uses: `util` worker threads, `process` the standard streams. An `import` of theirs reads
 * every name that they have, and so loads thirty more. As modules that esbuild knows, they give the names that are used, and no others are read.
 */
const BUILTINS = Object.fromEntries(
  // What stands for a name stands for all below it too, if that has nothing of its own.
  (['process', 'util', 'util/types'] as const).map((name) => {
    const names = Object.keys(process.getBuiltinModule(name));
    const read = names.map((key) => `${key}=/*@__PURE__*/(()=>$given.${key})()`);
    const code = `const $given=process.getBuiltinModule("${name}");export default $given;export const ${read.join()};`;
    // What follows the last slash would name a file of it.
    return [`node:${name}`, `data:text/javascript,${code}//${name}`];
  }),
);

function settings(entryPoint: string, external: string[]) {
  return {
    entryPoints: { index: entryPoint },
    absWorkingDir: WORKING_DIRECTORY,
    outdir: WORKING_DIRECTORY,
    outExtension: { '.js': '.mjs' },
    write: false,
    metafile: true,
    bundle: true,
    // What is imported when it is first needed stays out of what a cold start reads, and keeps nothing of the rest from being dropped.
    splitting: true,
    external,
    platform: 'node',
    target: 'node24',
    format: 'esm',
    // ES modules first: esbuild cannot drop unused parts of CommonJS.
    mainFields: ['module', 'main'],
    alias: {
      ...BUILTINS,
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
    banner: { js: "const require=process.getBuiltinModule('module').createRequire(import.meta.url);" },
    logLevel: 'warning',
  } satisfies BuildOptions;
}

/** The files that `index.mjs` can come to load, or null where one of them uses what `NEVER_USED` left out. */
function partsOf({ outputFiles, metafile }: BuildResult<ReturnType<typeof settings>>): Part[] | null {
  const loaded = new Set(['index.mjs']);
  for (const name of loaded) {
    for (const { path, external = false } of metafile.outputs[name]?.imports ?? []) {
      if (!external) loaded.add(path);
      else if (NEVER_USED.some((left) => path.startsWith(left.replace('*', '')))) return null;
    }
  }
  return outputFiles
    .map(({ path, contents }): Part => [relative(WORKING_DIRECTORY, path), contents])
    .filter(([name]) => loaded.has(name.replace(/\.map$/, '')));
}
