import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Benchmark } from '../harness/benchmark.ts';
import { type Figure, median } from '../harness/figure.ts';

const RUNS = 3;
const CDK = join('node_modules', 'aws-cdk', 'bin', 'cdk');
const CONTEXT = ['stage=prod', 'region=eu-central-1', 'mailProvider=https://mail.example.com'];

/** Seconds. */
function synthesis(...more: string[]): number {
  const output = mkdtempSync(join(tmpdir(), 'sealed-outbox-synth-'));
  try {
    const started = performance.now();
    const context = [...CONTEXT, ...more].flatMap((given) => ['-c', given]);
    const { status, stderr } = spawnSync(process.execPath, [CDK, 'synth', '--quiet', '--output', output, ...context], {
      encoding: 'utf8',
    });
    if (status !== 0) throw new Error(`cdk synth ended with ${status}: ${stderr}`);
    return (performance.now() - started) / 1000;
  } finally {
    rmSync(output, { recursive: true });
  }
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
      { name: "with CloudFormation's own rules too", value: synthesis('validate=cloudformation'), unit: 's' },
    ] satisfies Figure[];
  },
};
