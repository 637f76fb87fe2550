import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { withTables } from '../../support/document-tables.ts';
import { AWS_FAULTS, DATABASE_FAULTS, faultTables } from '../../support/fault-table.ts';

const ROOT = join(import.meta.dirname, '../../..');
const DOCUMENT = join(ROOT, 'docs/failures.md');
const WRITE = 'npm test -- unit test/unit/docs/fault-table.test.ts -u';

const cells = [DATABASE_FAULTS, AWS_FAULTS].flatMap((faults) =>
  Object.entries(faults).flatMap(([fault, byFunction]) =>
    Object.entries(byFunction).map(([name, cell]) => ({ fault, name, ...cell })),
  ),
);

describe('the tables of functions under faults', () => {
  it(`stand in docs/failures.md (written by: ${WRITE})`, async () => {
    await expect(withTables(readFileSync(DOCUMENT, 'utf8'), faultTables())).toMatchFileSnapshot(DOCUMENT, WRITE);
  });

  it.each(cells)('$name, when $fault: is shown by tests that exist', ({ shown }) => {
    expect(shown.length).toBeGreaterThan(0);
    const missing = shown.filter(([file, words]) => {
      const path = join(ROOT, file);
      return !existsSync(path) || !readFileSync(path, 'utf8').includes(words);
    });
    expect(missing).toEqual([]);
  });
});
