import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { CFN_LINT } from '../../../local/emulator/packages.ts';
import { findPython, type Python } from '../../../local/emulator/python.ts';
import { pipProblem, virtualEnvironment } from '../../../local/emulator/virtual-environment.ts';
import type { Command, Supervisor } from '../../../local/processes/supervisor.ts';

const python = (version: [number, number], venv = true): Python => ({
  version,
  venv,
  executable: `/usr/bin/python${version.join('.')}`,
  pip: null,
});
const machine = (installed: Record<string, Python>) => (name: string) => Promise.resolve(installed[name]);

describe('findPython', () => {
  it('takes python3 where it is new enough', async () => {
    const installed = { python3: python([3, 12]), 'python3.13': python([3, 13]) };
    expect(await findPython(machine(installed))).toEqual(installed.python3);
  });

  it('looks past an old python3 for a newer one under its own name', async () => {
    const installed = { python3: python([3, 9]), 'python3.12': python([3, 12]) };
    expect(await findPython(machine(installed))).toEqual(installed['python3.12']);
  });

  it('looks past one that cannot make virtual environments', async () => {
    const installed = { python3: python([3, 11], false), 'python3.12': python([3, 12]) };
    expect(await findPython(machine(installed))).toEqual(installed['python3.12']);
  });

  it.each([
    ['nothing', {}, 'LOCAL_PYTHON_MISSING', /none was found: install it .*python3-venv/],
    ['only 3.10', { python3: python([3, 10]) }, 'LOCAL_PYTHON_OLD', /only 3\.10 was found: install a newer one/],
    ['only Python 2', { python: python([2, 7], false) }, 'LOCAL_PYTHON_OLD', /only 2\.7 was found/],
    [
      'no venv',
      { python3: python([3, 11], false) },
      'LOCAL_PYTHON_VENV',
      /cannot make virtual environments.*apt-get install python3-venv/,
    ],
  ])('says what to install when there is %s', async (_, installed, code, message) => {
    await expect(findPython(machine(installed as Record<string, Python>))).rejects.toMatchObject({
      code,
      message: expect.stringMatching(message) as string,
    });
  });
});

describe('virtualEnvironment', () => {
  it('has what is unpacked for it inside of it: an installation that is interrupted leaves nothing elsewhere', async () => {
    const cache = mkdtempSync(join(tmpdir(), 'environments-'));
    try {
      const commands: Command[] = [];
      const start = (command: Command) => {
        commands.push(command);
        return { pid: 1, ended: Promise.resolve(0), tail: () => '', stop: async () => {} };
      };
      const made = await virtualEnvironment(
        cache,
        CFN_LINT,
        { start } as unknown as Supervisor,
        () => {},
        async () => python([3, 12]),
      );
      const environment = join(made, '..', '..');
      const unpacking = commands.filter(({ name }) => name.includes('pip'));
      expect(unpacking.length).toBeGreaterThan(0);
      for (const { env } of unpacking) expect(env['TMPDIR']).toBe(join(environment, 'tmp'));
      expect(readdirSync(environment)).toEqual(['.complete']);
    } finally {
      rmSync(cache, { recursive: true });
    }
  });
});

describe('pipProblem', () => {
  it.each([
    ['OSError: [Errno 28] No space left on device', 'LOCAL_DISK_FULL'],
    ['The virtual environment was not created successfully because ensurepip is not available.', 'LOCAL_PYTHON_VENV'],
    ['Failed to establish a new connection: [Errno -3] Temporary failure in name resolution', 'LOCAL_PIP_REGISTRY'],
    ['ERROR: No matching distribution found for botocore==1.43.106', 'LOCAL_PIP_REGISTRY'],
    ['ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.', 'LOCAL_PIP_HASH'],
    ['Something else', 'LOCAL_PIP'],
  ])('recognises %s', (said, code) => {
    expect(pipProblem('pip install', said)).toMatchObject({ code });
  });
});
