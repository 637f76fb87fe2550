import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface RecordedProcess {
  readonly name: string;
  readonly pid: number;
  readonly startedAt: string;
}

/** What a start wrote down about itself, so that the next one can find what a crash left behind. */
export interface LocalState {
  readonly supervisor: RecordedProcess;
  readonly processes: readonly RecordedProcess[];
  /** Temporary directories to remove. */
  readonly directories: readonly string[];
  readonly addresses: Readonly<Record<string, string>>;
}

const FILE = 'state.json';

/** Undefined where no start has left a readable state. */
export function readState(directory: string): LocalState | undefined {
  let text: string;
  try {
    text = readFileSync(join(directory, FILE), 'utf8');
  } catch {
    return undefined;
  }
  try {
    return JSON.parse(text) as LocalState;
  } catch {
    return undefined; // half-written by a machine that lost power: every process of it is gone as well
  }
}

/** Claims the directory for one start. False where another start has it. */
export function claimState(directory: string, state: LocalState): boolean {
  mkdirSync(directory, { recursive: true });
  try {
    writeFileSync(join(directory, FILE), format(state), { flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Synchronous and by rename, so that a crash between a process's start and its record is as short as it can be. */
export function writeState(directory: string, state: LocalState): void {
  const draft = join(directory, `${FILE}.draft`);
  writeFileSync(draft, format(state));
  renameSync(draft, join(directory, FILE));
}

export function removeState(directory: string): void {
  rmSync(join(directory, FILE), { force: true });
}

const format = (state: LocalState): string => `${JSON.stringify(state, null, 2)}\n`;
