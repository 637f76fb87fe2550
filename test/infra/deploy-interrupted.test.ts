import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { expect, it, vi } from 'vitest';
import { ROOT } from './synthesised.ts';

/** As cdk: a program that starts another one, and waits for it. */
const CDK = `
  const { spawn } = require('node:child_process');
  const app = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: 'inherit' });
  console.log(app.pid);
`;
const COMMAND = `
  const { runStep } = await import(${JSON.stringify(join(ROOT, 'infra/deploy/run-step.ts'))});
  console.log(await runStep({ args: ['-e', ${JSON.stringify(CDK)}] }, process.cwd()));
`;

const isAlive = (pid: number): boolean => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};

it.each([
  ['SIGINT', '130'],
  ['SIGTERM', '143'],
] as const)(
  '%s to npm run deploy ends the program of the step and what that has started, and waits for it',
  async (signal, code) => {
    const command = spawn(process.execPath, ['--input-type=module', '-e', COMMAND], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const lines = createInterface({ input: command.stdout });
    const ended = once(command, 'exit');
    const [pid] = await once(lines, 'line');
    const said = once(lines, 'line');
    command.kill(signal);
    expect(await said).toEqual([code]);
    expect(await ended).toEqual([0, null]);
    await vi.waitFor(() => expect(isAlive(Number(pid))).toBe(false), { timeout: 10_000 });
  },
);
