import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { problemAnswer, type ProblemError, sealingProblem } from '../../../functions/sample/api/problem.ts';
import { classifyFailure } from '../../../shared/inbox/failure.ts';
import {
  KeysNotPreparedError,
  type SealingAnswer,
  sealingAnswer,
  SealingError,
  type SealingErrorCode,
  SealingRefusedError,
} from '../../../shared/sealing/index.ts';

const CODES = Object.keys({
  SEALING_DENIED: true,
  SEALING_KEY_DISABLED: true,
  SEALING_KEY_UNKNOWN: true,
  SEALING_LIMIT: true,
  SEALING_MALFORMED: true,
  SEALING_TAMPERED: true,
  SEALING_THROTTLED: true,
  SEALING_UNAVAILABLE: true,
} satisfies Record<SealingErrorCode, true>) as SealingErrorCode[];

const ERRORS = new Map<string, Error>([
  ...CODES.map((code): [string, Error] => [code, new SealingError(code, 'm')]),
  ['SEALING_REFUSED', new SealingRefusedError('m')],
  ['KEYS_NOT_PREPARED', new KeysNotPreparedError('m')],
]);

/** The codes of the table under a title, each with the cells of its row by the names in the head. */
function rowsUnder(title: string): { code: string; cells: Record<string, string> }[] {
  const lines = readFileSync('docs/sensitive-data.md', 'utf8').split('\n');
  const head = lines.findIndex(
    (line, index) => line.startsWith('| code |') && index > lines.findIndex((it) => it.endsWith(`# ${title}`)),
  );
  const end = lines.findIndex((line, index) => index > head && !line.startsWith('|'));
  const cellsOf = (line: string): string[] =>
    line
      .slice(1, -1)
      .split(' | ')
      .map((cell) => cell.trim());
  const names = cellsOf(lines[head] ?? '');
  return lines.slice(head + 2, end).flatMap((line) => {
    const cells = cellsOf(line);
    return [...(cells[0] ?? '').matchAll(/`([A-Z_]+)`/g)].map(([, code = '']) => ({
      code,
      cells: Object.fromEntries(names.map((name, index) => [name, cells[index] ?? ''])),
    }));
  });
}

const answerOf = (cell: string): SealingAnswer => {
  const [, status, retryAfter] = /^(\d{3})(?:, `Retry-After: (\d+)`)?$/.exec(cell) ?? [];
  return {
    status: Number(status) as SealingAnswer['status'],
    ...(retryAfter !== undefined && { retryAfter: Number(retryAfter) }),
  };
};

describe('the table of errors in docs/sensitive-data.md', () => {
  const rows = rowsUnder('When sealed data does not open');

  it('has every code, once', () => {
    expect(rows.map(({ code }) => code).toSorted()).toEqual([...ERRORS.keys()].toSorted());
  });

  it.each(rows)('$code: says what API and consumer do, and a test against KMS shows it', ({ code, cells }) => {
    expect(sealingAnswer(ERRORS.get(code))).toEqual(answerOf(cells['an HTTP API'] ?? ''));
    const told = cells['a consumer'] ?? '';
    // A writer's error is none that a consumer meets when it opens; of its handler it is the handler's.
    if (code === 'SEALING_REFUSED') expect(told).toBe('–');
    else {
      const becomes = { retry: 'returns the message, uncounted', denied: 'as `denied`', malformed: 'as `malformed`' };
      const failure = classifyFailure(ERRORS.get(code));
      expect(told).toContain(becomes[failure.class as keyof typeof becomes]);
    }
    expect(readFileSync('test/contract/sealing-errors.test.ts', 'utf8')).toContain(`'${code}'`);
  });
});

describe('the sample', () => {
  it.each([...ERRORS])('answers %s as the table says, and no more than that keys became too old', (code, error) => {
    const answer = problemAnswer(sealingProblem(error) as ProblemError, '/invoices');
    const told = code === 'KEYS_NOT_PREPARED' ? { status: 503, retryAfter: 5 } : sealingAnswer(error);
    const retryAfter = answer.headers['retry-after'];
    expect({ status: answer.status, ...(retryAfter !== undefined && { retryAfter: Number(retryAfter) }) }).toEqual(
      told,
    );
  });

  it('has no answer to other errors', () => {
    expect(sealingProblem(new Error('m'))).toBeUndefined();
  });
});
