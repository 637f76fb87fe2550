import type { LocalState, RecordedProcess } from './state.ts';
import { descendants, type ProcessEntry, type ProcessTable } from './table.ts';

export interface Leftover {
  /** Of the recorded process that it is, or that it belongs to. */
  readonly name: string;
  readonly process: ProcessEntry;
}

/** Whether the process that was recorded is the one that has its number now. */
export function isAlive(recorded: RecordedProcess, table: ProcessTable): boolean {
  return table.get(recorded.pid)?.startedAt === recorded.startedAt;
}

/**
 * What of an earlier start still runs: the recorded processes, what they started, and the rest of a group whose leader
 * has died already (the emulator starts the functions' processes in its own group).
 *
 * A number that belongs to another process by now is never touched: not by itself (its start time differs), and not
 * through its group (a group whose number names a living stranger is the stranger's).
 */
export function findLeftovers(state: LocalState, table: ProcessTable, self: number): Leftover[] {
  const found = new Map<number, Leftover>();
  const add = (name: string, entry: ProcessEntry): void => {
    if (entry.pid !== self && !found.has(entry.pid)) found.set(entry.pid, { name, process: entry });
  };
  for (const recorded of state.processes) {
    const holder = table.get(recorded.pid);
    if (holder !== undefined && holder.startedAt !== recorded.startedAt) continue;
    if (holder !== undefined) {
      add(recorded.name, holder);
      for (const entry of descendants(table, recorded.pid)) add(recorded.name, entry);
    }
    for (const entry of table.values()) {
      if (entry.group === recorded.pid) add(recorded.name, entry);
    }
  }
  return [...found.values()];
}

/** "postgres (812) and 6 processes of it, ministack (830)" */
export function describeLeftovers(leftovers: readonly Leftover[]): string {
  return [...Map.groupBy(leftovers, ({ name }) => name)]
    .map(([name, [first, ...others]]) => {
      const more =
        others.length === 0 ? '' : ` and ${others.length} ${others.length === 1 ? 'process' : 'processes'} of it`;
      return `${name} (${first?.process.pid})${more}`;
    })
    .join(', ');
}
