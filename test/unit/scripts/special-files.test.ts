import { existsSync, globSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { ALONE, LONGEST } from '../../../scripts/test/special-files.ts';

const LASTING = /\bvi\.(mock|doMock|resetModules)\(|\/(canary|spans)\.ts'/;

describe('files of tests that are run in a way of their own', () => {
  it('are there', () => {
    expect([...ALONE, ...LONGEST].filter((path) => !existsSync(path))).toEqual([]);
  });

  it('are, of those that share a process, none that changes it for the next one', () => {
    const shared = globSync('test/integration/**/*.test.ts').filter((path) => !ALONE.includes(path));
    expect(shared.length).toBeGreaterThan(50);
    expect(shared.filter((path) => LASTING.test(readFileSync(path, 'utf8')))).toEqual([]);
  });
});
