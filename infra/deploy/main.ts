import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ask } from './ask.ts';
import { deploy, destroy, type World } from './carry-out.ts';
import type { Step } from './plan.ts';
import { runStep } from './run-step.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const COMMANDS = { deploy, destroy } as const;

const world: World = {
  context:
    (JSON.parse(readFileSync(join(ROOT, 'cdk.json'), 'utf8')) as { context?: Record<string, unknown> }).context ?? {},
  print: (text) => console.log(text),
  complain: (text) => console.error(text),
  ask: process.stdin.isTTY ? ask : null,
  run,
};

async function run(step: Step): Promise<number> {
  console.error(`\n${step.does} …`);
  return runStep(step, ROOT);
}

const [command, ...words] = process.argv.slice(2);
if (command !== 'deploy' && command !== 'destroy') throw new Error('deploy or destroy');
process.exitCode = await COMMANDS[command](words, world);
