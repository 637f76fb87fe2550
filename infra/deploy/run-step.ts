import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import type { Step } from './plan.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Runs a step's program to its end. npm's signals come to this process alone (`scripts/bootstrap.mjs`): they are passed on to the program and to all that it has
 * started, once, and its end is waited for. So nothing goes on deploying that somebody believes to have ended.
 *
 * @returns its exit code; 128 + the signal's number where a signal ended it
 */
export async function runStep({ args }: Pick<Step, 'args'>, cwd: string): Promise<number> {
  const child = spawn(process.execPath, args, { cwd, stdio: 'inherit', detached: true });
  let interruptedBy: NodeJS.Signals | null = null;
  const pass = (signal: NodeJS.Signals): void => {
    interruptedBy = signal;
    try {
      if (child.pid !== undefined) process.kill(-child.pid, signal);
    } catch {
      // It ended in this moment.
    }
  };
  for (const signal of SIGNALS) process.on(signal, pass);
  try {
    return await new Promise<number>((settle, fail) => {
      child.on('error', fail);
      child.on('close', (code, signal) => {
        const by = signal ?? interruptedBy;
        settle(by === null ? (code ?? 1) : 128 + constants.signals[by]);
      });
    });
  } finally {
    for (const signal of SIGNALS) process.off(signal, pass);
  }
}
