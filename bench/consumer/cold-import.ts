import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundle } from '../../infra/constructs/bundle.ts';
import { FUNCTIONS } from '../../infra/functions.ts';
import { bundleSize } from '../../test/support/bundle-size.ts';
import { imports } from '../cold-import.ts';
import type { Benchmark } from '../harness/benchmark.ts';
import { median } from '../harness/figure.ts';

const RUNS = 11;

export const coldImport: Benchmark = {
  name: 'cold-import',
  what: "the ledger's bundle: its size, and what importing it costs a fresh Node.js",
  minutes: 0.2,
  async run() {
    const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-bundle-'));
    try {
      bundle(FUNCTIONS.ledger, directory);
      const file = join(directory, 'index.mjs');
      const times = imports(RUNS, file);
      const { loaded, all } = bundleSize(directory);
      return [
        {
          name: "the ledger's bundle, as a cold start reads it",
          value: loaded / 1024,
          unit: 'KB',
          goal: { atMost: 500 },
        },
        { name: 'with what is loaded when it is first needed', value: all / 1024, unit: 'KB' },
        { name: 'its cold import, median', value: median(times), unit: 'ms', goal: { atMost: 100 } },
        { name: 'its cold import, fastest', value: Math.min(...times), unit: 'ms' },
      ];
    } finally {
      rmSync(directory, { recursive: true });
    }
  },
};
