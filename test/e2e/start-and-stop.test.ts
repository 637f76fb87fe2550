import { type ChildProcess, spawn } from 'node:child_process';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { ROOT } from '../../local/environment.ts';
import { signal } from '../../local/processes/end.ts';
import { findLeftovers } from '../../local/processes/leftovers.ts';
import { type LocalState, readState } from '../../local/processes/state.ts';
import { descendants, type ProcessEntry, processTable } from '../../local/processes/table.ts';
import { until } from './until.ts';

/** Beside the one that the other tests use. */
const DIRECTORY = join('.local', 'e2e-start');

interface Started {
  readonly process: ChildProcess;
  readonly output: () => string;
  readonly ended: Promise<number | NodeJS.Signals | null>;
}

const running = new Set<Started>();
afterEach(async () => {
  for (const started of running) {
    const entries = descendants(processTable(), started.process.pid ?? -1);
    started.process.kill('SIGKILL');
    signal(entries, 'SIGKILL');
    await started.ended;
  }
  running.clear();
});

/** `npm start` without npm, which only passes signals on. */
function start(...args: string[]): Started {
  const child = spawn(process.execPath, [join(ROOT, 'local', 'main.ts'), '--directory', DIRECTORY, ...args], {
    cwd: ROOT,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let text = '';
  child.stdout.on('data', (chunk) => (text += String(chunk)));
  child.stderr.on('data', (chunk) => (text += String(chunk)));
  const started: Started = {
    process: child,
    output: () => text,
    ended: new Promise((resolve) => child.once('close', (code, how) => resolve(code ?? how))),
  };
  running.add(started);
  void started.ended.then(() => running.delete(started));
  return started;
}

/** Waits until PostgreSQL and the emulator run; what then stands in the state file, and every process there is. */
async function servers(started: Started): Promise<{ state: LocalState; processes: ProcessEntry[] }> {
  const state = await until(
    `PostgreSQL and the emulator run, in:\n${started.output()}`,
    () => {
      if (!/✓ Local AWS/.test(started.output()) || !/✓ PostgreSQL/.test(started.output())) return undefined;
      return readState(join(ROOT, DIRECTORY));
    },
    60_000,
  );
  return { state, processes: descendants(processTable(), started.process.pid ?? -1) };
}

const stillRunning = (entries: readonly ProcessEntry[]): number[] => {
  const table = processTable();
  return entries.filter(({ pid, startedAt }) => table.get(pid)?.startedAt === startedAt).map(({ pid }) => pid);
};

const answers = async (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false));
    socket.once('connect', () => socket.destroy());
  });

describe('npm start', () => {
  it('leaves no process, no port and no file after Ctrl-C; meanwhile a second one is refused', async () => {
    const port = 20_000 + (process.pid % 20_000);
    const first = start('--port', String(port));
    const { state, processes } = await servers(first);
    expect(state.processes.map(({ name }) => name)).toEqual(expect.arrayContaining(['postgres', 'ministack']));
    expect(await answers(port)).toBe(true);

    const second = start();
    expect(await second.ended).toBe(1);
    expect(second.output().trim().split('\n')).toEqual([expect.stringMatching(/^The local cloud runs already/)]);

    first.process.kill('SIGINT');
    expect(await first.ended).toBe(130);
    expect(stillRunning(processes)).toEqual([]);
    expect(findLeftovers(state, processTable(), process.pid)).toEqual([]);
    expect(await answers(port)).toBe(false);
    expect(readState(join(ROOT, DIRECTORY))).toBeUndefined();
  });

  it('names and ends what a killed start left behind, then ends by SIGTERM', async () => {
    const killed = start();
    const { state, processes } = await servers(killed);
    killed.process.kill('SIGKILL');
    await killed.ended;
    const left = findLeftovers(state, processTable(), process.pid).map((leftover) => leftover.process);
    expect(left.length).toBeGreaterThan(1);

    const next = start();
    const second = await servers(next);
    for (const name of ['postgres', 'ministack'])
      expect(next.output()).toMatch(new RegExp(`Ending what it left: .*${name} \\(\\d+\\)`));
    expect(stillRunning([...left, ...processes])).toEqual([]);

    next.process.kill('SIGTERM');
    await next.ended;
    expect(stillRunning(second.processes)).toEqual([]);
  });

  it('says in one sentence that the port is taken', async () => {
    const taken = createServer();
    const port = await new Promise<number>((resolve) => {
      taken.listen(0, '127.0.0.1', () => resolve((taken.address() as AddressInfo).port));
    });
    try {
      const started = start('--port', String(port));
      expect(await started.ended).toBe(1);
      expect(started.output().trim()).toMatch(new RegExp(`^Port ${port} is taken by another program: .*--port.*$`));
    } finally {
      taken.close();
    }
  });
});
