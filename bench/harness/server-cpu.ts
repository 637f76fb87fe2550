import { readFileSync } from 'node:fs';

/** Seconds that these processes have had on a core; NaN where the system does not tell. */
export function cpuOf(pids: Iterable<number>): number {
  let nanoseconds = 0;
  for (const pid of pids) {
    try {
      nanoseconds += Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]);
    } catch {
      return Number.NaN;
    }
  }
  return nanoseconds / 1e9;
}
