/**
 * What a cold start costs: each function's bundle, imported by a fresh Node.js, several times.
 *
 *   npm run bench -- cold-import [runs, default 11]
 *
 * Prints what an import reads and what the zip holds besides in KB (without source maps), median and fastest import in milliseconds, and the median with
 * `--enable-source-maps`, which makes stack traces readable in the log. The budget is 100 ms for relay and consumers, 130 ms for the others. On
 * a busy machine look at the fastest.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { bundle, bundleAhead } from '../infra/constructs/bundle.ts';
import { FUNCTIONS } from '../infra/functions.ts';
import { bundleSize } from '../test/support/bundle-size.ts';

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
  SEALING_ERASURE_LOG: 'none',
  MAIL_PROVIDER_URL: 'http://127.0.0.1:1',
};

/** Milliseconds of each run, ascending. */
export function imports(runs: number, file: string, ...options: string[]): number[] {
  const url = JSON.stringify(pathToFileURL(file).href);
  return timed(runs, '', `await import(${url})`, options);
}

/** What is loaded when it is first needed: milliseconds of importing `later` in a process that has imported `file`, ascending. */
export function laterImports(runs: number, file: string, later: string): number[] {
  const [first, second] = [file, later].map((path) => `await import(${JSON.stringify(pathToFileURL(path).href)})`);
  return timed(runs, `${first};`, `${second}`, []);
}

/** Node.js's own modules alone, which a function that reaches database and AWS over TLS cannot do without: milliseconds, ascending. */
export function builtinImports(runs: number): number[] {
  const names = ['crypto', 'stream', 'dns', 'tls', 'https'];
  return timed(runs, '', `[${names.map((name) => `process.getBuiltinModule('${name}')`).join()}]`, []);
}

function timed(runs: number, before: string, what: string, options: readonly string[]): number[] {
  const script = `${before} const t = performance.now(); ${what}; console.log(performance.now() - t); process.exit();`;
  const times = Array.from({ length: runs }, () => {
    const child = spawnSync(process.execPath, [...options, '--input-type=module', '--eval', script], {
      encoding: 'utf8',
      env: SETTINGS,
    });
    if (child.status !== 0) throw new Error(`this does not load: ${what}\n${child.stderr}`);
    return Number(child.stdout);
  });
  return times.toSorted((a, b) => a - b);
}

const median = (sorted: number[]): string => (sorted[Math.floor(sorted.length / 2)] ?? Number.NaN).toFixed(0);

export async function coldImport(runs: number): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-bundles-'));
  try {
    await bundleAhead(Object.values(FUNCTIONS));
    const rows = Object.entries(FUNCTIONS).map(([name, entry]) => {
      const output = join(directory, name);
      bundle(entry, output);
      const { loaded, all } = bundleSize(output);
      const file = join(output, 'index.mjs');
      const plain = imports(runs, file);
      return {
        function: name,
        'KB read': Math.round(loaded / 1024),
        'KB in all': Math.round(all / 1024),
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
