import { describe, expect, it } from 'vitest';
import { cleanEnvironment } from '../../../local/environment.ts';
import { parseOptions } from '../../../local/options.ts';
import { explain } from '../../../local/problem.ts';
import { createReport } from '../../../local/report.ts';

describe('parseOptions', () => {
  it('starts and stays unless told otherwise', () => {
    expect(parseOptions([])).toEqual({
      help: false,
      check: false,
      verbose: false,
      port: undefined,
      directory: '.local',
    });
  });

  it('takes what the help names', () => {
    const options = parseOptions(['--check', '--port', '4566', '--verbose', '--directory', '.local/other']);
    expect(options).toMatchObject({ check: true, port: 4566, verbose: true, directory: '.local/other' });
  });

  it.each([['--prot', '1'], ['--port', 'many'], ['--port', '80'], ['--port', '70000'], ['more']])(
    'refuses %s %s with a sentence',
    (...args) => {
      expect(() => parseOptions(args.filter(Boolean))).toThrow(expect.objectContaining({ code: 'LOCAL_OPTION' }));
    },
  );
});

describe('cleanEnvironment', () => {
  it('lets nothing through that could change how functions behave', () => {
    const env = cleanEnvironment({
      HOME: '/h',
      PATH: '/bin',
      AWS_PROFILE: 'mine',
      NODE_OPTIONS: '--inspect',
      PYTHONPATH: '/p',
    });
    expect(Object.keys(env).toSorted()).toEqual(['HOME', 'PATH']);
    expect(env['PATH']).toMatch(/node_modules\/\.bin:\/bin$/);
  });

  it('lets through what one process asks for', () => {
    expect(cleanEnvironment({ PIP_INDEX_URL: 'x', OTHER: 'y' }, ['PIP_INDEX_URL'])).toMatchObject({
      PIP_INDEX_URL: 'x',
    });
  });
});

describe('explain', () => {
  it('knows a full disk, from Node and from what a program printed', () => {
    expect(explain(Object.assign(new Error('write'), { code: 'ENOSPC' }))).toMatchObject({ code: 'LOCAL_DISK_FULL' });
    expect(explain(new Error('initdb: No space left on device'))).toMatchObject({ code: 'LOCAL_DISK_FULL' });
  });

  it('leaves everything else as it is', () => {
    const error = new Error('other');
    expect(explain(error)).toBe(error);
  });
});

describe('createReport', () => {
  it('prints each step with its time, and nothing for one that failed', async () => {
    const lines: string[] = [];
    let now = 0;
    const report = createReport({ write: (line) => lines.push(line), verbose: false, now: () => now });
    await report.step('first', async (progress) => {
      progress('halfway');
      now = 1_234;
    });
    await expect(report.step('second', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    expect(lines).toEqual(['  ✓ first  1.2 s']);
  });

  it('says that a long step is still at work, and at what', async () => {
    const lines: string[] = [];
    const report = createReport({ write: (line) => lines.push(line), verbose: false, now: () => 0, everyMs: 1 });
    await report.step('long', async (progress) => {
      progress('the middle');
      while (lines.length === 0) await new Promise((resolve) => setImmediate(resolve));
    });
    expect(lines[0]).toBe('  … long, 0.0 s: the middle');
  });
});
