import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { failureClass, HOPELESS, OUTAGE } from '../../../shared/outbox/relay/failure-class.ts';
import { type Outcome, outcomeOf, RETRY_POLICY } from '../../../shared/outbox/relay/outcome.ts';

interface TableRow {
  readonly code: string;
  /** What follows the code in its cell. */
  readonly condition: string;
  readonly class: string;
  readonly becomes: string;
  readonly attempts: number;
}

/** The one table of the document whose first column is `code`. */
function tableOf(document: string): TableRow[] {
  const lines = document.split('\n');
  const header = lines.findIndex((line) => line.startsWith('| code |'));
  const end = lines.findIndex((line, index) => index > header && !line.startsWith('|'));
  return lines.slice(header + 2, end).map((line) => {
    const [first = '', , failure = '', becomes = '', attempts = ''] = line
      .slice(1, -1)
      .split(' | ')
      .map((cell) => cell.trim());
    const [, code, condition] = /^`([^`]+)`(.*)$/.exec(first) ?? [];
    if (code === undefined) throw new Error(`a row without a code: ${line}`);
    return { code, condition: condition ?? '', class: failure, becomes, attempts: Number(attempts) };
  });
}

const document = readFileSync('docs/failures.md', 'utf8');
const table = tableOf(document);
const exact = table.filter(({ code }) => !code.includes('*'));
const HTTP_429 = 'Http429';

const BECOMES: Readonly<Record<string, Outcome['kind']>> = {
  'stays as it is': 'outage',
  'is parked at once': 'parked',
  'is retried; parked at the 12th attempt': 'retry',
};

/** Codes that a row speaks of. */
function examples(code: string): readonly string[] {
  if (code === '*') return ['SomethingNew', 'BatchRequestTooLong', 'Http400', 'Http413'];
  if (!code.endsWith('*')) return [code];
  const stem = code.slice(0, -1);
  const endings = stem.startsWith('Http')
    ? ['00', '02', '03', '04']
    : ['Throttled', 'Disabled', 'AccessDenied', 'NotFound', 'DisabledException'];
  return endings.map((ending) => stem + ending);
}

describe('the table of codes in docs/failures.md', () => {
  it('has every code of the classification, and no other', () => {
    const listed = (failure: string) =>
      exact.filter((row) => row.class === failure && row.code !== HTTP_429).map(({ code }) => code);
    expect(listed('outage').toSorted()).toEqual([...OUTAGE].toSorted());
    expect(listed('hopeless').toSorted()).toEqual([...HOPELESS].toSorted());
    expect(listed('unknown')).toEqual([]);
    expect(table.filter(({ code }) => code.includes('*')).map(({ code }) => code)).toEqual([
      'Kms*',
      'KMS.*',
      'Http5*',
      '*',
      '*',
    ]);
  });

  it('has each code once', () => {
    const rows = table.map(({ code, condition }) => code + condition);
    expect(rows.filter((row, index) => rows.indexOf(row) !== index)).toEqual([]);
  });

  it.each(table)('$code$condition: $class, $becomes, $attempts charged', (row) => {
    const conditions =
      row.code === '*' ? [row.condition === ', another event passed within the minute'] : [true, false];
    for (const code of examples(row.code)) {
      expect(failureClass(code)).toBe(row.class);
      for (const anotherPassedLately of conditions) {
        const outcome = outcomeOf(
          { ok: false, code, reason: 'no' },
          { attempts: 0 },
          { anotherPassedLately, policy: RETRY_POLICY, random: () => 0.5 },
        );
        expect(outcome.kind).toBe(BECOMES[row.becomes]);
        // An outage is never written; everything else that a settle writes costs one.
        expect(outcome.kind === 'outage' ? 0 : 1).toBe(row.attempts);
      }
    }
  });

  it('says how often an event is tried', () => {
    expect(document).toContain('twelve attempts in all');
    expect(RETRY_POLICY).toEqual({ attempts: 12, baseMs: 1_000, capMs: 300_000 });
  });
});
