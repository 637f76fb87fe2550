import { readFileSync } from 'node:fs';

/** Seconds that a process has had on a core; NaN where the system does not tell. */
function cpuOf(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e9;
  } catch {
    return Number.NaN;
  }
}

/**
 * What the processes of a set have had on a core since now. One that joins it counts from its beginning; one that leaves does not count at all, as a
 * connection that was idle for so long that it was closed.
 *
 * @returns seconds; NaN where the system does not tell
 */
export function cpuMeter(pids: ReadonlySet<number>, of: (pid: number) => number = cpuOf): () => number {
  const before = new Map([...pids].map((pid) => [pid, of(pid)]));
  return () => [...pids].reduce((sum, pid) => sum + of(pid) - (before.get(pid) ?? 0), 0);
}
