import { spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, rmSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { Interrupted, LocalCloudProblem } from '../problem.ts';
import type { Report } from '../report.ts';
import { endProcesses, signal } from './end.ts';
import { describeLeftovers, findLeftovers, isAlive } from './leftovers.ts';
import { claimState, type LocalState, readState, removeState, writeState } from './state.ts';
import { descendants, type ProcessEntry, processTable } from './table.ts';

export interface Command {
  readonly name: string;
  readonly file: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

export interface Child {
  readonly pid: number;
  /** The exit code, or the name of the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /** The end of what it printed, at most `bytes` of it. */
  tail(bytes?: number): string;
  /** Ends it with everything it started. */
  stop(): Promise<void>;
}

/** Everything that one start of the local cloud has running, written down in `<directory>/state.json` while it lives. */
export interface Supervisor {
  readonly directory: string;
  /** True from the first moment of stopping: then nothing new may start. */
  readonly stopping: boolean;
  start(command: Command): Child;
  /** Records a process that somebody else started, such as PostgreSQL's. */
  adopt(name: string, pid: number): void;
  /** A directory that goes when the local cloud goes. */
  ownDirectory(path: string): void;
  publish(addresses: Readonly<Record<string, string>>): void;
  /** Runs at the stop, before the processes are ended; the last registered first. */
  beforeStop(action: () => Promise<void> | void): void;
  /** Ends everything. The second call waits for the first. */
  stop(): Promise<void>;
  /** Ends everything now, without asking. Synchronous. */
  kill(): void;
}

const GRACE_MS = 3_000;

/**
 * Claims the directory. What a crashed start left there is named, ended and removed first.
 *
 * @throws LocalCloudProblem (`LOCAL_RUNNING`) where another start is alive in the same directory.
 */
export async function openSupervisor(directory: string, report: Report): Promise<Supervisor> {
  mkdirSync(join(directory, 'logs'), { recursive: true });
  const own = processTable().get(process.pid);
  if (own === undefined) throw new Error('this process is not in the process table');
  let state: LocalState = {
    supervisor: { name: 'npm start', pid: own.pid, startedAt: own.startedAt },
    processes: [],
    directories: [],
    addresses: {},
  };
  while (!claimState(directory, state)) await clearAway(directory, report);
  const change = (part: Partial<LocalState>): void => {
    state = { ...state, ...part };
    writeState(directory, state);
  };
  const actions: (() => Promise<void> | void)[] = [];
  let stopped: Promise<void> | undefined;

  /** What is ours and runs: found through the record, and below this very process. */
  const running = (): ProcessEntry[] => {
    const table = processTable();
    const recorded = findLeftovers(state, table, process.pid).map((leftover) => leftover.process);
    return [...new Set([...recorded, ...descendants(table, process.pid)])];
  };

  const adopt = (name: string, pid: number): void => {
    const entry = processTable().get(pid);
    if (entry === undefined) return; // it has ended already; whoever waits for it says so
    change({ processes: [...state.processes, { name, pid, startedAt: entry.startedAt }] });
  };

  const start = ({ name, file, args, env, cwd }: Command): Child => {
    if (stopped !== undefined) throw new Interrupted();
    const logFile = join(directory, 'logs', `${name.replaceAll(' ', '-')}.log`);
    // A file, not a pipe: a child that writes after our death must not fall over, and its words must survive us.
    const log = openSync(logFile, 'w');
    // A group of its own: the terminal's Ctrl-C reaches us alone, and we end things in the right order.
    const child = spawn(file, args, { env, cwd, detached: true, stdio: ['ignore', log, log] });
    closeSync(log);
    const ended = new Promise<number | NodeJS.Signals>((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, how) => resolve(code ?? how ?? 1));
    });
    ended.catch(() => {}); // whoever awaits it gets the error; nobody awaiting must not end the process
    const pid = child.pid ?? -1;
    adopt(name, pid);
    return {
      pid,
      ended,
      tail: (bytes = 4_000) => readFileSync(logFile, 'utf8').slice(-bytes).trimEnd(),
      async stop() {
        const record = state.processes.filter((recorded) => recorded.pid === pid);
        const entries = findLeftovers({ ...state, processes: record }, processTable(), process.pid);
        await endProcesses(
          entries.map((leftover) => leftover.process),
          GRACE_MS,
        );
        change({ processes: state.processes.filter((recorded) => recorded.pid !== pid) });
      },
    };
  };

  const stop = async (): Promise<void> => {
    for (const action of actions.toReversed()) {
      try {
        await action();
      } catch (error) {
        report.detail(`while stopping: ${(error as Error).message}`);
      }
    }
    await endProcesses(running(), GRACE_MS);
    for (const path of state.directories) await rm(path, { recursive: true, force: true });
    removeState(directory);
  };

  return {
    directory,
    get stopping() {
      return stopped !== undefined;
    },
    start,
    adopt,
    ownDirectory: (path) => change({ directories: [...state.directories, path] }),
    publish: (addresses) => change({ addresses }),
    beforeStop: (action) => actions.push(action),
    stop: () => (stopped ??= stop()),
    kill() {
      signal(running(), 'SIGKILL');
      for (const path of state.directories) rmSync(path, { recursive: true, force: true, maxRetries: 3 });
      removeState(directory);
    },
  };
}

async function clearAway(directory: string, report: Report): Promise<void> {
  const state = readState(directory);
  if (state === undefined) return removeState(directory);
  const table = processTable();
  if (isAlive(state.supervisor, table)) {
    const api = state.addresses['API'];
    throw new LocalCloudProblem(
      'LOCAL_RUNNING',
      `The local cloud runs already (process ${state.supervisor.pid}${api ? `, API ${api}` : ', still starting'}): ` +
        'use it, end it with Ctrl-C in its terminal, or start another one with --directory.',
    );
  }
  const leftovers = findLeftovers(state, table, process.pid);
  if (leftovers.length > 0) {
    report.line(`An earlier start ended without cleaning up. Ending what it left: ${describeLeftovers(leftovers)}.`);
    await endProcesses(
      leftovers.map((leftover) => leftover.process),
      GRACE_MS,
    );
  }
  for (const path of state.directories) {
    report.detail(`removing ${basename(path)} of the earlier start`);
    await rm(path, { recursive: true, force: true });
  }
  removeState(directory);
}
