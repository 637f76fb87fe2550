import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { changeLines, changesSinceRelease } from '../cli/released/release.ts';
import { layerViolations } from './check/layers.ts';
import { brokenLinks } from './check/links.ts';
import { projectFiles } from './check/project-files.ts';
import { snippetsOf, writeSnippets } from './check/snippets.ts';
import { findingsIn } from './check/tracked-files.ts';
import { runChild } from './child.ts';

/** What a check found; an empty text is a pass. */
type Check = () => Promise<string>;

const root = process.cwd();
const bin = (name: string): string => join('node_modules', '.bin', name);
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

/** A program whose exit code says whether it passed. */
function program(command: string, ...args: string[]): Check {
  return async () => {
    const { code, output } = await runChild(command, args, { quiet: true });
    return code === 0 ? '' : output.trim() || `${command} ended with code ${code}`;
  };
}

const files = projectFiles(root);
const documents = new Map(files.filter((path) => path.endsWith('.md')).map((path) => [path, read(path)]));

async function layers(): Promise<string> {
  const sources = files.filter((path) => /\.[cm]?ts$/.test(path) && !path.endsWith('.d.ts'));
  return layerViolations(new Map(sources.map((path) => [path, read(path)])))
    .map(({ file, line, imports, reason }) => `${file}:${line} imports ${imports}: ${reason}`)
    .join('\n');
}

async function trackedFiles(): Promise<string> {
  const BINARY = /\.(png|jpg|gif|ico|woff2?|gz|zip)$/;
  return files
    .filter((path) => !BINARY.test(path))
    .flatMap((path) => findingsIn(path, read(path)))
    .map(({ file, line, reason }) => `${file}:${line} holds ${reason}`)
    .join('\n');
}

async function links(): Promise<string> {
  return brokenLinks(documents, (path) => existsSync(join(root, path)))
    .map(({ file, line, target, reason }) => `${file}:${line} links to ${target}: ${reason}`)
    .join('\n');
}

async function snippets(): Promise<string> {
  const found = [...documents].flatMap(([path, text]) => snippetsOf(path, text));
  if (found.length === 0) return '';
  const config = writeSnippets(root, join(root, '.cache', 'snippets'), found);
  return program(bin('tsc'), '-p', config)();
}

/** What is compatible passes: it becomes a promise only when it is released. */
async function catalogue(): Promise<string> {
  const { definition } = await import('../functions/sample/catalogue/definition.ts');
  const released = 'functions/sample/catalogue/catalogue.released.json';
  if (!existsSync(join(root, released))) return `${released} is missing: restore it, or run npm run release-catalogue`;
  const breaking = changesSinceRelease(definition, join(root, released)).filter((change) => change.breaking);
  if (breaking.length === 0) return '';
  return `${changeLines(breaking)}\nTo release it all the same: npm run release-catalogue -- --reason "…"`;
}

const GENERATE = program(process.execPath, 'scripts/generate.ts');

/** These read the generated validators; nothing of them starts before those are there. */
const NEEDS_GENERATED = new Set(['types', 'types-infra', 'templates', 'lint', 'unused', 'snippets']);

/** The slowest first: two cores take two at a time. */
const CHECKS: Readonly<Record<string, Check>> = {
  templates: program(process.execPath, join('local', 'check-templates.ts')),
  lint: program(bin('oxlint'), '--type-aware', '--deny-warnings'),
  types: program(bin('tsc'), '-p', 'tsconfig.json'),
  'types-infra': program(bin('tsc'), '-p', 'infra'),
  unused: program(process.execPath, bin('knip')),
  snippets,
  format: program(bin('oxfmt'), '--check', '.'),
  layers,
  files: trackedFiles,
  links,
  catalogue,
};

const HELP = `npm run check -- [check…]

Checks everything that needs no test: ${Object.keys(CHECKS).join(', ')}.
Without a name all run, two at a time, each with its time. The exit code is 0 only if every one passed.`;

async function timed(name: string, check: Check): Promise<string | null> {
  const started = performance.now();
  const output = await check().catch((error: unknown) => String(error));
  const seconds = ((performance.now() - started) / 1000).toFixed(1);
  console.log(`${output === '' ? 'passed' : 'FAILED'}  ${name.padEnd(12)} ${seconds.padStart(5)} s`);
  if (output !== '') console.log(output.replaceAll(/^/gm, '    '));
  return output === '' ? null : name;
}

async function main(names: readonly string[]): Promise<number> {
  if (names.some((name) => name.startsWith('-'))) {
    console.log(HELP);
    return 0;
  }
  const unknown = names.filter((name) => !(name in CHECKS));
  if (unknown.length > 0) {
    console.error(`There is no check ${unknown.join(', ')}. There are ${Object.keys(CHECKS).join(', ')}.`);
    return 1;
  }
  const chosen = names.length > 0 ? names : Object.keys(CHECKS);
  const results: (string | null)[] = [];
  if (chosen.some((name) => NEEDS_GENERATED.has(name))) results.push(await timed('generate', GENERATE));
  const waiting = [...chosen];
  const worker = async (): Promise<void> => {
    for (let name = waiting.shift(); name !== undefined; name = waiting.shift()) {
      const check = CHECKS[name];
      if (check !== undefined) results.push(await timed(name, check));
    }
  };
  await Promise.all([worker(), worker()]);
  const failed = results.filter((name) => name !== null);
  const passed = results.length - failed.length;
  if (failed.length > 0) console.log(`Failed: ${failed.join(', ')}.`);
  console.log(`${passed} checks passed, ${failed.length} failed`);
  return failed.length === 0 ? 0 : 1;
}

// Programs that run get the signal as well (`runChild`), right after this.
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  process.on(signal, () => setImmediate(() => process.exit(code)));
}
process.exitCode = await main(process.argv.slice(2));
