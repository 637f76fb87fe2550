import { relative, sep } from 'node:path';
import type { SkippedTest } from './skipped-reporter.ts';
import type { Suite } from './arguments.ts';

/** What one run of vitest left behind. `report` and `skipped` are null where it wrote none. */
export interface RunOutcome {
  readonly suites: readonly Suite[];
  readonly code: number;
  readonly report: unknown;
  readonly skipped: unknown;
}

export interface Summary {
  readonly passed: number;
  readonly failed: number;
  readonly skipped: number;
  readonly ok: boolean;
  /** What a person must know beside the numbers: skipped tests with their reasons, suites that were empty or broke. */
  readonly lines: readonly string[];
}

interface Report {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message: string;
    readonly assertionResults: readonly { readonly status: string }[];
  }[];
}

/**
 * Adds up vitest's own reports. A file that could not be loaded, or that broke outside its tests, holds no failed test,
 * so it counts as one failure itself; so does a run that ended badly with nothing failed in its report, and an empty
 * suite: the line never says "0 failed" of a run that did not succeed.
 */
export function summarize(
  outcomes: readonly RunOutcome[],
  options: { readonly root: string; readonly filtered: boolean },
): Summary {
  let passed = 0;
  let failed = 0;
  let skipped = 0;
  let anyFilled = false;
  const lines: string[] = [];
  for (const outcome of outcomes) {
    const name = outcome.suites.join(', ');
    const report = asReport(outcome.report);
    if (report === null) {
      failed += 1;
      lines.push(`FAILED ${name}: vitest ended with code ${outcome.code} and left no report.`);
      continue;
    }
    if (report.testResults.length === 0 && !options.filtered) {
      failed += 1;
      lines.push(`FAILED ${name}: no test ran (vitest ended with code ${outcome.code}; see its output above).`);
      continue;
    }
    passed += report.numPassedTests;
    skipped += report.numPendingTests + report.numTodoTests;
    let failedHere = report.numFailedTests;
    for (const file of report.testResults) {
      if (file.status !== 'failed' || file.assertionResults.some((test) => test.status === 'failed')) continue;
      failedHere += 1;
      lines.push(`FAILED ${relative(options.root, file.name)}: ${firstLine(file.message) || 'it did not finish'}`);
    }
    const filled = filledSuites(report, options.root);
    if (filled.size > 0) anyFilled = true;
    // With a filter, a suite without a match is expected.
    for (const suite of options.filtered ? [] : outcome.suites.filter((each) => !filled.has(each))) {
      failedHere += 1;
      lines.push(`FAILED ${suite}: no test was found.`);
    }
    if (outcome.code !== 0 && failedHere === 0) {
      failedHere = 1;
      lines.push(
        `FAILED ${name}: vitest ended with code ${outcome.code} although no test failed; see its output above.`,
      );
    }
    failed += failedHere;
    for (const test of (outcome.skipped as readonly SkippedTest[] | null) ?? []) {
      // A name filter skips all others, without a reason.
      if (options.filtered && test.reason === undefined) continue;
      lines.push(`skipped ${test.file} › ${test.name}: ${test.reason ?? 'no reason given'}`);
    }
  }
  if (options.filtered && !anyFilled && failed === 0) {
    failed += 1;
    lines.push('FAILED: nothing matches the given filter.');
  }
  return { passed, failed, skipped, ok: failed === 0 && outcomes.every(({ code }) => code === 0), lines };
}

/** `12 passed, 0 failed, 1 skipped`: what CI reads. */
export function countedLine({ passed, failed, skipped }: Summary): string {
  return `${passed} passed, ${failed} failed, ${skipped} skipped`;
}

function filledSuites(report: Report, root: string): ReadonlySet<string | undefined> {
  const files = report.testResults.filter((file) => file.assertionResults.length > 0 || file.status === 'failed');
  return new Set(files.map((file) => relative(root, file.name).split(sep)[1]));
}

function asReport(value: unknown): Report | null {
  return typeof value === 'object' && value !== null && 'testResults' in value ? (value as Report) : null;
}

function firstLine(text: string): string {
  return text.split('\n')[0] ?? '';
}
