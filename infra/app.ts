/** What `cdk` runs. esbuild works in a process of its own: it bundles the functions while Node.js loads CDK, which takes as long. */
import { bundleAhead } from './constructs/bundle.ts';
import { FUNCTIONS } from './functions.ts';

/** A command that needs no code says so, as `cdk destroy` does. */
const { 'aws:cdk:bundling-stacks': bundled = ['**'] } = JSON.parse(process.env['CDK_CONTEXT_JSON'] ?? '{}') as {
  'aws:cdk:bundling-stacks'?: readonly string[];
};
const [{ synthesise }] = await Promise.all([
  import('./synthesise.ts'),
  bundleAhead(bundled.length === 0 ? [] : Object.values(FUNCTIONS)),
]);
synthesise();
