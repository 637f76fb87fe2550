import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { bundleAhead } from '../../infra/constructs/bundle.ts';
import { FUNCTIONS } from '../../infra/functions.ts';
import type { Benchmark } from '../harness/benchmark.ts';
import { type Figure, median } from '../harness/figure.ts';

const RUNS = 3;
const CDK = join('node_modules', 'aws-cdk', 'bin', 'cdk');
const CONTEXT = ['stage=prod', 'region=eu-central-1', 'mailProvider=https://mail.example.com'];

/** Seconds that `work` takes with an empty folder for its output. */
function timed(work: (output: string) => void): number {
  const output = mkdtempSync(join(tmpdir(), 'sealed-outbox-synth-'));
  try {
    const started = performance.now();
    work(output);
    return (performance.now() - started) / 1000;
  } finally {
    rmSync(output, { recursive: true });
  }
}

function node(args: readonly string[], variables: Readonly<Record<string, string>> = {}): void {
  const env = { ...process.env, ...variables };
  const { status, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8', env });
  if (status !== 0) throw new Error(`${args.slice(0, 2).join(' ')} ended with ${status}: ${stderr}`);
}

/** What `-c` says: the stage's settings and `more`. */
function settings(...more: string[]): string[] {
  return [...CONTEXT, ...more].flatMap((setting) => ['-c', setting]);
}

/** Seconds. */
function synthesis(more: readonly string[] = [], variables?: Readonly<Record<string, string>>): number {
  return timed((output) => node([CDK, 'synth', '--quiet', '--output', output, ...settings(...more)], variables));
}

/** Seconds of `cdk synth` where the templates are there already. */
function commandAlone(): number {
  let seconds = Number.NaN;
  timed((output) => {
    node([CDK, 'synth', '--quiet', '--output', output, ...settings()]);
    seconds = timed(() => node([CDK, 'synth', '--quiet', '--app', output]));
  });
  return seconds;
}

/** Seconds. */
async function bundling(): Promise<number> {
  const started = performance.now();
  await bundleAhead(Object.values(FUNCTIONS));
  return (performance.now() - started) / 1000;
}

export const synth: Benchmark = {
  name: 'synth',
  what: '`cdk synth` of both stacks of stage prod, with every bundle',
  minutes: 0.6,
  async run() {
    const times = Array.from({ length: RUNS }, () => synthesis());
    return [
      { name: 'cdk synth, with bundles and cdk-nag: median', value: median(times), unit: 's', goal: { atMost: 8 } },
      { name: 'the same, fastest', value: Math.min(...times), unit: 's' },
      { name: 'the first after an installation', value: synthesis([], { NODE_DISABLE_COMPILE_CACHE: '1' }), unit: 's' },
      { name: "with CloudFormation's own rules too", value: synthesis(['validate=cloudformation']), unit: 's' },
      { name: 'the cdk command alone, with templates that are there', value: commandAlone(), unit: 's' },
      { name: 'Node.js loading CDK and cdk-nag alone', value: timed(() => node(['infra/synthesise.ts'])), unit: 's' },
      { name: 'bundling alone', value: await bundling(), unit: 's' },
    ] satisfies Figure[];
  },
};
