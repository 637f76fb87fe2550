/** Makes the package that others install, in `dist/package`: `npm run build`. */
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundle, bundleAhead, OWN_FUNCTIONS } from '../infra/constructs/bundle.ts';
import { runChild } from './child.ts';
import { buildDeclarations } from './package/declarations.ts';
import { buildDocuments } from './package/documents.ts';
import { buildLibrary } from './package/library.ts';
import { EXTERNAL, packageManifest } from './package/manifest.ts';
import { buildPrograms } from './package/programs.ts';
import { thirdParty } from './package/third-party.ts';

const root = join(import.meta.dirname, '..');
const output = join(root, 'dist', 'package');

/** The sample's tables are the sample's. */
const AREAS = ['outbox', 'inbox', 'vault'];

/** @returns the files that went into it */
async function buildFunctions(): Promise<string[]> {
  const names = Object.keys(OWN_FUNCTIONS) as (keyof typeof OWN_FUNCTIONS)[];
  await bundleAhead(names.map((own) => ({ own })));
  return names.flatMap((own) => {
    const folder = join(output, 'functions', own);
    bundle({ own }, folder);
    const maps = readdirSync(folder).filter((name) => name.endsWith('.map'));
    return maps.flatMap(
      (name) => (JSON.parse(readFileSync(join(folder, name), 'utf8')) as { sources: string[] }).sources,
    );
  });
}

async function main(): Promise<void> {
  const started = performance.now();
  const generated = await runChild(process.execPath, [join(root, 'scripts/generate.ts')], { quiet: true });
  if (generated.code !== 0) throw new Error(`npm run generate failed, nothing was built.\n${generated.output.trim()}`);
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
  const declarations = buildDeclarations(root, output);
  const parts = [buildLibrary(root, output, EXTERNAL), buildPrograms(root, output), buildFunctions()];
  const sources = (await Promise.all(parts)).flat();
  for (const area of AREAS) {
    cpSync(join(root, 'migrations', area), join(output, 'migrations', area), { recursive: true });
  }
  for (const name of ['LICENSE', 'CHANGELOG.md']) cpSync(join(root, name), join(output, name));
  buildDocuments(root, output);
  writeFileSync(join(output, 'THIRD-PARTY.txt'), thirdParty(root, sources));
  const manifest = packageManifest(JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')));
  writeFileSync(join(output, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`);
  await declarations;
  console.log(`dist/package is built in ${((performance.now() - started) / 1000).toFixed(1)} s`);
}

await main();
