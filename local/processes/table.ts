import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** One running process. A number alone names nothing, since numbers are used again; with `startedAt` it does. */
export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  /** When it started, as the system writes it. Equal text, same process. */
  readonly startedAt: string;
}

export type ProcessTable = ReadonlyMap<number, ProcessEntry>;

/** Everything that runs now, zombies excepted. Synchronous, so that the last act of a dying process can use it. */
export function processTable(): ProcessTable {
  const entries = process.platform === 'linux' ? fromProc() : fromPs();
  return new Map(entries.map((entry) => [entry.pid, entry]));
}

// Small Linux images have no `ps`, so the kernel is asked itself.
function fromProc(): ProcessEntry[] {
  // Start times count from boot, so the boot belongs to the identity.
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').slice(0, 8);
  return readdirSync('/proc').flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      return parseStat(readFileSync(`/proc/${name}/stat`, 'utf8'), boot);
    } catch {
      return []; // it ended while we read
    }
  });
}

/** `/proc/<pid>/stat`: the second field is the command in brackets and may itself hold spaces and brackets. */
export function parseStat(stat: string, boot: string): ProcessEntry[] {
  const rest = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, parent, group] = rest;
  if (state === 'Z' || state === 'X') return [];
  return [
    { pid: Number.parseInt(stat, 10), parent: Number(parent), group: Number(group), startedAt: `${boot}:${rest[19]}` },
  ];
}

function fromPs(): ProcessEntry[] {
  const text = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,pgid=,stat=,lstart='], {
    encoding: 'utf8',
    env: { ...process.env, LC_ALL: 'C' },
  });
  return text.split('\n').flatMap((line) => {
    const [pid, parent, group, state, ...started] = line.trim().split(/\s+/);
    if (!pid || state === undefined || state.startsWith('Z')) return [];
    return [{ pid: Number(pid), parent: Number(parent), group: Number(group), startedAt: started.join(' ') }];
  });
}

/** All processes below `root`, nearest first. `root` itself is not among them. */
export function descendants(table: ProcessTable, root: number): ProcessEntry[] {
  const found: ProcessEntry[] = [];
  let level = [root];
  while (level.length > 0) {
    const next = [...table.values()].filter((entry) => level.includes(entry.parent));
    found.push(...next);
    level = next.map((entry) => entry.pid);
  }
  return found;
}
