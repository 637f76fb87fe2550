import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundle, bundleAhead } from '../../infra/constructs/bundle.ts';
import { FUNCTIONS } from '../../infra/functions.ts';
import { bundleSize } from '../../test/support/bundle-size.ts';
import { builtinImports, imports, laterImports } from '../cold-import.ts';
import type { Benchmark } from '../harness/benchmark.ts';
import { type Figure, median } from '../harness/figure.ts';

const RUNS = 11;
/** They start most often. */
const OFTEN = new Set(['relay', 'ledger', 'analytics', 'notifications']);

export const coldImports: Benchmark = {
  name: 'cold-import',
  what: 'what importing each function costs a fresh Node.js',
  minutes: 0.5,
  async run() {
    const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-bundles-'));
    try {
      await bundleAhead(Object.values(FUNCTIONS));
      const functions = Object.entries(FUNCTIONS).flatMap(([name, entry]): Figure[] => {
        const output = join(directory, name);
        bundle(entry, output);
        const { loaded, all } = bundleSize(output);
        const times = imports(RUNS, join(output, 'index.mjs'));
        const goal = { atMost: OFTEN.has(name) ? 100 : 130 };
        return [
          { name: `${name}: read at a cold start`, value: loaded / 1024, unit: 'KB' },
          { name: `${name}: all of its code`, value: all / 1024, unit: 'KB' },
          { name: `${name}: cold import, median`, value: median(times), unit: 'ms', goal },
          { name: `${name}: cold import, fastest`, value: Math.min(...times), unit: 'ms' },
          ...laterParts(name, output),
        ];
      });
      const builtin = { name: "Node.js's own modules alone, median", value: median(builtinImports(RUNS)), unit: 'ms' };
      return [...functions, builtin];
    } finally {
      rmSync(directory, { recursive: true });
    }
  },
};

/** The clients that a function loads when it first asks their service. */
function laterParts(name: string, output: string): Figure[] {
  return Object.entries({ KMS: /^kms-client-\w+\.mjs$/, S3: /^s3-client-\w+\.mjs$/ }).flatMap(([service, file]) => {
    const part = readdirSync(output).find((candidate) => file.test(candidate));
    if (part === undefined) return [];
    const times = laterImports(RUNS, join(output, 'index.mjs'), join(output, part));
    return [
      { name: `${name}: loading ${service}'s client when it is first asked, median`, value: median(times), unit: 'ms' },
    ];
  });
}
