import { describe, expect, test } from 'vitest';
import { parseTestArguments } from '../../../scripts/test/arguments.ts';
import { countedLine, type RunOutcome, summarize } from '../../../scripts/test/summary.ts';

const OPTIONS = { root: '/project', filtered: false };

interface File {
  readonly suite?: string;
  readonly status?: string;
  readonly message?: string;
  readonly tests: readonly string[];
}

function outcome(files: readonly File[], rest: Partial<RunOutcome> = {}): RunOutcome {
  const statuses = files.flatMap(({ tests }) => tests);
  const count = (status: string): number => statuses.filter((each) => each === status).length;
  return {
    suites: ['unit'],
    code: files.some(({ status, tests }) => status === 'failed' || tests.includes('failed')) ? 1 : 0,
    skipped: null,
    report: {
      numPassedTests: count('passed'),
      numFailedTests: count('failed'),
      numPendingTests: count('skipped'),
      numTodoTests: 0,
      testResults: files.map(({ suite = 'unit', status, message = '', tests }, index) => ({
        name: `/project/test/${suite}/file-${index}.test.ts`,
        status: status ?? (tests.includes('failed') ? 'failed' : 'passed'),
        message,
        assertionResults: tests.map((each) => ({ status: each })),
      })),
    },
    ...rest,
  };
}

describe('the counted line', () => {
  test('adds up the reports of all runs', () => {
    const summary = summarize(
      [
        outcome([{ tests: ['passed', 'passed', 'skipped'] }]),
        outcome([{ suite: 'e2e', tests: ['passed'] }], { suites: ['e2e'] }),
      ],
      OPTIONS,
    );
    expect(countedLine(summary)).toBe('3 passed, 0 failed, 1 skipped');
    expect(summary.ok).toBe(true);
  });

  test('counts failed tests', () => {
    const summary = summarize([outcome([{ tests: ['passed', 'failed', 'failed'] }])], OPTIONS);
    expect(countedLine(summary)).toBe('1 passed, 2 failed, 0 skipped');
    expect(summary.ok).toBe(false);
  });

  test('counts a file that could not be loaded as one failure and names it', () => {
    const summary = summarize(
      [outcome([{ tests: ['passed'] }, { status: 'failed', message: 'no such module\n  at x', tests: [] }])],
      OPTIONS,
    );
    expect(countedLine(summary)).toBe('1 passed, 1 failed, 0 skipped');
    expect(summary.lines).toEqual(['FAILED test/unit/file-1.test.ts: no such module']);
  });

  test('counts a file whose tests passed but whose hook broke', () => {
    const summary = summarize([outcome([{ status: 'failed', message: 'hook', tests: ['passed'] }])], OPTIONS);
    expect(summary).toMatchObject({ passed: 1, failed: 1, ok: false });
  });

  test('is a failure when vitest left no report', () => {
    const summary = summarize([outcome([], { report: null, code: 134 })], OPTIONS);
    expect(summary).toMatchObject({ failed: 1, ok: false });
    expect(summary.lines).toEqual(['FAILED unit: vitest ended with code 134 and left no report.']);
  });

  test('is a failure when vitest ended badly although no test failed', () => {
    const summary = summarize([outcome([{ tests: ['passed'] }], { code: 1 })], OPTIONS);
    expect(summary).toMatchObject({ passed: 1, failed: 1, ok: false });
  });
});

describe('an empty suite', () => {
  test('is a failure with its name', () => {
    const summary = summarize([outcome([{ tests: ['passed'] }], { suites: ['unit', 'infra'] })], OPTIONS);
    expect(summary).toMatchObject({ passed: 1, failed: 1, ok: false });
    expect(summary.lines).toEqual(['FAILED infra: no test was found.']);
  });

  test('is a failure when no suite of the run had a test, for example because the global set-up broke', () => {
    const summary = summarize([outcome([], { suites: ['unit', 'integration'], code: 1 })], OPTIONS);
    expect(summary).toMatchObject({ failed: 1, ok: false });
    expect(summary.lines).toEqual([
      'FAILED unit, integration: no test ran (vitest ended with code 1; see its output above).',
    ]);
  });

  test('is expected under a filter, as long as another suite has a match', () => {
    const filtered = { ...OPTIONS, filtered: true };
    const empty = outcome([], { suites: ['e2e'] });
    expect(summarize([outcome([{ tests: ['passed'] }]), empty], filtered).ok).toBe(true);
    expect(summarize([empty], filtered)).toMatchObject({
      failed: 1,
      ok: false,
      lines: ['FAILED: nothing matches the given filter.'],
    });
  });
});

test('names skipped tests with their reason', () => {
  const skipped = [{ file: 'test/unit/a.test.ts', name: 'vectors', reason: 'the vectors are not on this machine' }];
  const { lines } = summarize([outcome([{ tests: ['skipped'] }], { skipped })], OPTIONS);
  expect(lines).toEqual(['skipped test/unit/a.test.ts › vectors: the vectors are not on this machine']);
});

describe('arguments', () => {
  test('suites come first, everything else is for vitest', () => {
    expect(parseTestArguments(['integration', 'unit', '-t', 'infra'])).toEqual({
      help: false,
      suites: ['unit', 'integration'],
      rest: ['-t', 'infra'],
    });
    expect(parseTestArguments(['test/unit/a.test.ts']).suites).toEqual([]);
    expect(parseTestArguments(['--help']).help).toBe(true);
  });
});
