/** Tests whose changes last as long as their process: which modules are loaded, the tracer. Each of them has a process of its own. */
export const ALONE = [
  'test/integration/canary.test.ts',
  'test/integration/chaos.test.ts',
  'test/integration/functions/aws-faults.test.ts',
  'test/integration/functions/database-faults.test.ts',
  'test/integration/functions/janitor.test.ts',
  'test/integration/operator/audit.test.ts',
  'test/integration/tracing.test.ts',
];

/** They begin first: one of them at the end would leave every other core without work. */
export const LONGEST = ['test/e2e/cloud.test.ts', 'test/integration/chaos.test.ts', 'test/integration/package.test.ts'];
