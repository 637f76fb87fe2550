import { writeFileSync } from 'node:fs';
import { relative } from 'node:path';
import type { Reporter, TestModule } from 'vitest/node';

/** A test that did not run, and why. vitest's JSON report counts it but drops the reason. */
export interface SkippedTest {
  readonly file: string;
  readonly name: string;
  /** The text given to `context.skip(text)`. */
  readonly reason?: string;
}

/** Writes the skipped tests to the file that `SKIPPED_TESTS_FILE` names. */
export default class SkippedReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const file = process.env['SKIPPED_TESTS_FILE'];
    if (file === undefined) return;
    const skipped: SkippedTest[] = [];
    for (const module of modules) {
      for (const test of module.children.allTests('skipped')) {
        const result = test.result();
        const reason = result.state === 'skipped' ? result.note : undefined;
        skipped.push({
          file: relative(process.cwd(), module.moduleId),
          name: test.fullName,
          ...(reason === undefined ? {} : { reason }),
        });
      }
    }
    writeFileSync(file, JSON.stringify(skipped));
  }
}
