import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { FailureClass } from '../../../shared/inbox/failure.ts';
import { withTables } from '../../support/document-tables.ts';
import { MODE_ROWS, MODES, modeTable } from '../../support/mode-table.ts';
import { OUTCOME_ROWS, outcomeTable } from '../../support/outcome-table.ts';
import { missingTests } from '../../support/shown.ts';

const DOCUMENT = join(import.meta.dirname, '../../../docs/consumer.md');
const WRITE = 'npm test -- unit test/unit/docs/consumer-tables.test.ts -u';

/** A class that is added to the type must be added here, or this does not compile. */
const CLASSES = Object.keys({
  denied: true,
  handler: true,
  malformed: true,
  retry: true,
  time: true,
  'unknown-type': true,
  'unknown-version': true,
} satisfies Record<FailureClass, true>);

describe('the tables of what a consumer does', () => {
  it(`stand in docs/consumer.md (written by: ${WRITE})`, async () => {
    const made = withTables(readFileSync(DOCUMENT, 'utf8'), { modes: modeTable(), outcomes: outcomeTable() });
    await expect(made).toMatchFileSnapshot(DOCUMENT, WRITE);
  });

  it.each(MODE_ROWS)('$what: is carried out in each mode, by scenarios or a test that exists', (row) => {
    expect(row.scenarios.length).toBeGreaterThan(0);
    for (const scenario of row.scenarios) for (const mode of MODES) expect(scenario[mode].applied).toBeDefined();
    expect(missingTests(Object.values(row.shown ?? {}))).toEqual([]);
  });

  it.each(OUTCOME_ROWS)('$what: is shown by tests that exist', ({ shown }) => {
    expect(shown.length).toBeGreaterThan(0);
    expect(missingTests(shown)).toEqual([]);
  });

  it('have a row for every class of failures', () => {
    const told = OUTCOME_ROWS.flatMap((row) => row.class ?? []);
    expect([...new Set(told)].toSorted()).toEqual(CLASSES);
  });
});
