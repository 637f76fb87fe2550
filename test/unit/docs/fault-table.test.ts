import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { withTables } from '../../support/document-tables.ts';
import { AWS_FAULTS, DATABASE_FAULTS, faultTables } from '../../support/fault-table.ts';
import { missingTests } from '../../support/shown.ts';

const DOCUMENT = join(import.meta.dirname, '../../../docs/failures.md');
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
    expect(missingTests(shown)).toEqual([]);
  });
});
