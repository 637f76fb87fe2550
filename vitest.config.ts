import { defineConfig } from 'vitest/config';
import { LongestFirst } from './scripts/test/longest-first.ts';
import { ALONE } from './scripts/test/special-files.ts';

const SECOND = 1000;

const INTEGRATION = {
  setupFiles: ['test/support/no-wrong-statements.ts'],
  globalSetup: ['test/support/postgres-global.ts'],
  testTimeout: 60 * SECOND,
  hookTimeout: 60 * SECOND,
};

/**
 * One project per kind of test; `scripts/test.ts` runs them and counts. Time limits are generous on purpose: a test
 * that is slow on a busy machine is not wrong, one that hangs still ends.
 */
export default defineConfig({
  test: {
    // Two cores are what CI has.
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    reporters: ['default'],
    projects: [
      {
        test: {
          name: 'unit',
          include: ['test/unit/**/*.test.ts'],
          setupFiles: ['test/support/no-network.ts'],
          // Functions of data: a worker for each of a hundred files took as long as the tests (108 s of processor time and not 57).
          isolate: false,
          testTimeout: 30 * SECOND,
        },
      },
      {
        test: {
          ...INTEGRATION,
          name: 'integration',
          include: ['test/integration/**/*.test.ts'],
          exclude: ALONE,
          // Each has a database of its own. A worker for each of a hundred files took almost as long as the tests (134 s of processor time for
          // half of them and not 75).
          isolate: false,
        },
      },
      {
        test: {
          ...INTEGRATION,
          name: 'integration-alone',
          include: ALONE,
        },
      },
      {
        test: {
          name: 'contract',
          include: ['test/contract/**/*.test.ts'],
          globalSetup: ['test/support/localstack.ts'],
          testTimeout: 60 * SECOND,
          // The first call of a service loads it.
          hookTimeout: 120 * SECOND,
        },
      },
      {
        test: {
          name: 'infra',
          include: ['test/infra/**/*.test.ts'],
          // Loading CDK takes longer than most of these files, which make templates and nothing else.
          isolate: false,
          // esbuild's thread for calls that wait was seen not to outlive the file that started it: a process for each call instead.
          env: { ESBUILD_WORKER_THREADS: '0' },
          // A synthesis bundles every function.
          testTimeout: 120 * SECOND,
          hookTimeout: 120 * SECOND,
        },
      },
      {
        test: {
          name: 'e2e',
          include: ['test/e2e/**/*.test.ts'],
          globalSetup: ['test/e2e/global-setup.ts'],
          // One file uses the deployed cloud, the other starts and stops clouds of its own: side by side they take half the time.
          testTimeout: 180 * SECOND,
          hookTimeout: 300 * SECOND,
        },
      },
      {
        test: {
          name: 'long',
          include: ['test/long/**/*.test.ts'],
          globalSetup: ['test/support/postgres-global.ts'],
          fileParallelism: false,
          testTimeout: 75 * 60 * SECOND,
          hookTimeout: 300 * SECOND,
        },
      },
    ],
  },
});
