/**
 * What a cold start costs: each function's bundle, imported by a fresh Node.js, several times.
 *
 *   npm run bench -- cold-import [runs, default 11]
 *
 * Prints size, median and fastest import in milliseconds, and the median with `--enable-source-maps`, which would make stack traces
 * readable in the log. The budget is 100 ms for relay and consumers. On a busy machine look at the fastest.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { bundle } from '../infra/constructs/bundle.ts';

export const FUNCTIONS = {
  relay: 'functions/relay/index.ts',
  ledger: 'functions/sample/ledger/index.ts',
  notifications: 'functions/sample/notifications/index.ts',
  api: 'functions/sample/api/index.ts',
  monitor: 'functions/monitor/index.ts',
  migrate: 'functions/migrate/index.ts',
};

/** Settings that let every module load; nothing is connected. */
const SETTINGS = {
  AWS_REGION: 'eu-central-1',
  DATABASE_AUTH: 'password',
  DATABASE_HOST: '127.0.0.1',
  DATABASE_NAME: 'outbox',
  DATABASE_PASSWORD: 'none',
  DATABASE_USER: 'nobody',
  SEALING_KEY_ARN: 'arn:aws:kms:eu-central-1:000000000000:key/none',
  SEALING_VAULT: 'none',
  OUTBOX_DESTINATIONS: '{"ledger":{"kind":"sqs-fifo","url":"http://127.0.0.1/000000000000/ledger.fifo"}}',
  OUTBOX_SLOT: 'bench',
};

/** Milliseconds of each run, ascending. */
export function imports(runs: number, file: string, ...options: string[]): number[] {
  const script = `const t = performance.now(); await import(${JSON.stringify(pathToFileURL(file).href)}); console.log(performance.now() - t); process.exit();`;
  const times = Array.from({ length: runs }, () => {
    const child = spawnSync(process.execPath, [...options, '--input-type=module', '--eval', script], {
      encoding: 'utf8',
      env: SETTINGS,
    });
    if (child.status !== 0) throw new Error(`${file} does not load: ${child.stderr}`);
    return Number(child.stdout);
  });
  return times.toSorted((a, b) => a - b);
}

const median = (sorted: number[]): string => (sorted[Math.floor(sorted.length / 2)] ?? Number.NaN).toFixed(0);

export function coldImport(runs: number): void {
  const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-bundles-'));
  try {
    const rows = Object.entries(FUNCTIONS).map(([name, entry]) => {
      const output = join(directory, name);
      bundle(entry, output);
      const file = join(output, 'index.mjs');
      const plain = imports(runs, file);
      return {
        function: name,
        KB: Math.round(statSync(file).size / 1024),
        'median ms': median(plain),
        'fastest ms': plain[0]?.toFixed(0),
        'with source maps ms': median(imports(runs, file, '--enable-source-maps')),
      };
    });
    console.table(rows);
  } finally {
    rmSync(directory, { recursive: true });
  }
}
