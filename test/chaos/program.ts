import { type ChildProcess, spawn } from 'node:child_process';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';

/** Starts a program of the run with its options; gives its lines. */
export function spawnProgram(
  program: string,
  options: object,
  onLine: (line: string) => void,
): { readonly child: ChildProcess; readonly ended: Promise<number | null> } {
  const child = spawn(process.execPath, [program, JSON.stringify(options)], {
    // The pipe to its stdin tells it when this process is gone.
    stdio: ['pipe', 'pipe', 'inherit'],
    // Compiled once: most of what a relay does that is killed all the time is to start.
    env: { ...process.env, NODE_COMPILE_CACHE: join(dirname(program), 'compiled') },
  });
  child.stdin.on('error', () => {});
  createInterface({ input: child.stdout }).on('line', onLine);
  return { child, ended: new Promise((resolve) => child.once('close', resolve)) };
}
