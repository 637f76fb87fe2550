import { setTimeout as delay } from 'node:timers/promises';
import { type ProcessEntry, processTable } from './table.ts';

/**
 * Ends these processes: asks with `SIGTERM`, waits at most `graceMs`, then forces. Each signal is sent only while the
 * number still names the same process. Resolves when all are gone.
 */
export async function endProcesses(entries: readonly ProcessEntry[], graceMs: number): Promise<void> {
  signal(entries, 'SIGTERM');
  if (await gone(entries, graceMs)) return;
  signal(entries, 'SIGKILL');
  await gone(entries, 5_000);
}

/** Sends one signal to those of them that still run. */
export function signal(entries: readonly ProcessEntry[], name: NodeJS.Signals): void {
  for (const entry of stillRunning(entries)) {
    try {
      process.kill(entry.pid, name);
    } catch {
      // it ended in this moment
    }
  }
}

async function gone(entries: readonly ProcessEntry[], withinMs: number): Promise<boolean> {
  const deadline = performance.now() + withinMs;
  while (stillRunning(entries).length > 0) {
    if (performance.now() > deadline) return false;
    await delay(20);
  }
  return true;
}

function stillRunning(entries: readonly ProcessEntry[]): ProcessEntry[] {
  const table = processTable();
  return entries.filter((entry) => table.get(entry.pid)?.startedAt === entry.startedAt);
}
