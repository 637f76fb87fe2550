import { spawn } from 'node:child_process';
import { constants } from 'node:os';

export interface ChildResult {
  /** Exit code; 128 + the signal's number for a child that a signal ended. */
  readonly code: number;
  /** What it wrote to both streams, empty when it wrote to the terminal. */
  readonly output: string;
  /** The signal that was passed on to it: whoever sent it wants everything to end, not only this. */
  readonly interruptedBy: NodeJS.Signals | null;
}

export interface ChildOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Collect the output instead of showing it. */
  readonly quiet?: boolean;
}

/** Runs a program to its end and passes SIGINT, SIGTERM and SIGHUP on to it, so that it can clean up. Never rejects. */
export async function runChild(
  command: string,
  args: readonly string[],
  options: ChildOptions = {},
): Promise<ChildResult> {
  const child = spawn(command, args, {
    stdio: options.quiet ? ['ignore', 'pipe', 'pipe'] : ['ignore', 'inherit', 'inherit'],
    env: { ...process.env, ...options.env },
  });
  let output = '';
  child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()));
  child.stderr?.on('data', (chunk: Buffer) => (output += chunk.toString()));
  let interruptedBy: NodeJS.Signals | null = null;
  const relay = (signal: NodeJS.Signals): void => {
    interruptedBy = signal;
    child.kill(signal);
  };
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const signal of signals) process.on(signal, relay);
  const code = await new Promise<number>((settle) => {
    child.on('error', (error) => {
      output += `${command} could not be started: ${error.message}\n`;
      settle(127);
    });
    child.on('close', (status, signal) => {
      settle(signal === null ? (status ?? 1) : 128 + constants.signals[signal]);
    });
  });
  for (const signal of signals) process.off(signal, relay);
  return { code, output, interruptedBy };
}
