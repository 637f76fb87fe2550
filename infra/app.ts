/** What `cdk` runs. esbuild works in a process of its own: it bundles the functions while Node.js loads CDK, which takes as long. */
import { enableCompileCache } from 'node:module';
import { join } from 'node:path';
import { bundleAhead, ROOT } from './constructs/bundle.ts';
import { FUNCTIONS } from './functions.ts';

// Node.js keeps there what it has compiled, by content and by its own version: CDK then loads in two thirds of the time.
enableCompileCache(join(ROOT, '.cache', 'compiled'));

// How much garbage esbuild lets come together, in percent of what it needs. At Go's own 100, collecting is a fifth of its time; this takes 350 MB.
process.env['GOGC'] ??= '400';

/** A command that needs no code says so, as `cdk destroy` does. */
const { 'aws:cdk:bundling-stacks': bundled = ['**'] } = JSON.parse(process.env['CDK_CONTEXT_JSON'] ?? '{}') as {
  'aws:cdk:bundling-stacks'?: readonly string[];
};
const [{ synthesise }] = await Promise.all([
  import('./synthesise.ts'),
  bundleAhead(bundled.length === 0 ? [] : Object.values(FUNCTIONS)),
]);
synthesise();
