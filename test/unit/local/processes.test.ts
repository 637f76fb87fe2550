import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { describeLeftovers, findLeftovers, isAlive } from '../../../local/processes/leftovers.ts';
import { claimState, type LocalState, readState, removeState, writeState } from '../../../local/processes/state.ts';
import { descendants, parseStat, type ProcessEntry, processTable } from '../../../local/processes/table.ts';

const SELF = 1;
const table = (...entries: [pid: number, parent: number, group: number, startedAt: string][]) =>
  new Map(
    entries.map(([pid, parent, group, startedAt]): [number, ProcessEntry] => [pid, { pid, parent, group, startedAt }]),
  );
const state = (...processes: [name: string, pid: number, startedAt: string][]): LocalState => ({
  supervisor: { name: 'npm start', pid: 5, startedAt: 's' },
  processes: processes.map(([name, pid, startedAt]) => ({ name, pid, startedAt })),
  directories: [],
  addresses: {},
});
const found = (...args: Parameters<typeof findLeftovers>): number[] =>
  findLeftovers(...args).map(({ process }) => process.pid);

describe('findLeftovers', () => {
  it('finds a recorded process and all that it started', () => {
    const running = table([10, 1, 10, 'a'], [11, 10, 10, 'b'], [12, 11, 12, 'c'], [20, 1, 20, 'x']);
    expect(found(state(['ministack', 10, 'a']), running, SELF)).toEqual([10, 11, 12]);
  });

  it('never touches a process that has got a number again, nor its children and its group', () => {
    const running = table([10, 1, 10, 'later'], [11, 10, 10, 'later']);
    expect(found(state(['ministack', 10, 'a']), running, SELF)).toEqual([]);
  });

  it('finds what is left of a group whose leader has died', () => {
    const running = table([11, 1, 10, 'b'], [12, 1, 12, 'c']);
    expect(found(state(['ministack', 10, 'a']), running, SELF)).toEqual([11]);
  });

  it('leaves itself alone', () => {
    expect(found(state(['ministack', 10, 'a']), table([10, 1, 10, 'a'], [99, 10, 10, 'b']), 99)).toEqual([10]);
  });

  it('has nothing to do where nothing runs', () => {
    expect(found(state(['ministack', 10, 'a'], ['postgres', 11, 'b']), table(), SELF)).toEqual([]);
  });
});

describe('describeLeftovers', () => {
  it('names what was started and counts what belongs to it', () => {
    const running = table([10, 1, 10, 'a'], [11, 10, 10, 'b'], [12, 10, 10, 'c'], [20, 1, 20, 'd']);
    const leftovers = findLeftovers(state(['postgres', 10, 'a'], ['ministack', 20, 'd']), running, SELF);
    expect(describeLeftovers(leftovers)).toBe('postgres (10) and 2 processes of it, ministack (20)');
  });
});

describe('isAlive', () => {
  it('needs number and start time', () => {
    const recorded = { name: 'x', pid: 10, startedAt: 'a' };
    expect(isAlive(recorded, table([10, 1, 10, 'a']))).toBe(true);
    expect(isAlive(recorded, table([10, 1, 10, 'b']))).toBe(false);
    expect(isAlive(recorded, table())).toBe(false);
  });
});

describe('the process table', () => {
  it('holds this process under its parent', () => {
    const entries = processTable();
    expect(entries.get(process.pid)).toMatchObject({ parent: process.ppid });
    expect(entries.get(process.pid)?.startedAt).toBe(processTable().get(process.pid)?.startedAt);
    expect(descendants(entries, process.ppid).map(({ pid }) => pid)).toContain(process.pid);
  });

  it('reads a command that holds brackets and spaces', () => {
    const rest = ['S', '7', '8', ...Array.from({ length: 16 }, () => '0'), '4711', '0'].join(' ');
    expect(parseStat(`42 (a) b (c)) ${rest}`, 'boot')).toEqual([
      { pid: 42, parent: 7, group: 8, startedAt: 'boot:4711' },
    ]);
  });

  it('leaves out what has ended and only waits to be collected', () => {
    expect(parseStat('42 (node) Z 7 8 0', 'boot')).toEqual([]);
  });
});

describe('the state file', () => {
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-state-'));
  });
  afterEach(() => rmSync(directory, { recursive: true }));

  it('is claimed by one start only, and is free again once removed', () => {
    expect(claimState(directory, state())).toBe(true);
    expect(claimState(directory, state())).toBe(false);
    removeState(directory);
    expect(claimState(directory, state())).toBe(true);
  });

  it('comes back as it was written', () => {
    expect(readState(directory)).toBeUndefined();
    const written = state(['postgres', 10, 'a']);
    writeState(directory, written);
    expect(readState(directory)).toEqual(written);
  });
});
