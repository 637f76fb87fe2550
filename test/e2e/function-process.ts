import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { processTable } from '../../local/processes/table.ts';

/** The processes in which the emulator runs a function: it unpacks the code into a directory with the function's name. */
function processesOf(functionName: string): number[] {
  return [...processTable().keys()].filter((pid) => commandLine(pid).includes(`-${functionName}-`));
}

/** As a sandbox that dies: no warning, nothing finished. */
export function killFunction(functionName: string): void {
  for (const pid of processesOf(functionName)) process.kill(pid, 'SIGKILL');
}

function commandLine(pid: number): string {
  try {
    return process.platform === 'linux'
      ? readFileSync(`/proc/${pid}/cmdline`, 'utf8')
      : execFileSync('ps', ['-o', 'args=', '-p', String(pid)], { encoding: 'utf8' });
  } catch {
    return ''; // it ended while we looked
  }
}
