import { describe, expect, it } from 'vitest';
import { findPython, type Python } from '../../../local/emulator/python.ts';
import { pipProblem } from '../../../local/emulator/virtual-environment.ts';

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
