import { describe, expect, it } from 'vitest';
import { isUnexplained, unexplainedLog, type UnexplainedReport } from '../../chaos/unexplained.ts';

describe('an error of a run of chaos', () => {
  it.each([
    '08006',
    '57P01',
    '57P03',
    '57014',
    '40001',
    '40P01',
    '53300',
    '55P03',
    '25P03',
    'ECONNRESET',
    'Error',
    'HANDLER_FAILED',
  ])('%s is what faults do', (code) => {
    expect(isUnexplained(code)).toBe(false);
  });

  it.each(['42501', '42883', '42P01', '22P02', '23505', '25P02', 'IB001', 'TypeError'])('%s is not', (code) => {
    expect(isUnexplained(code)).toBe(true);
  });

  it('is found at whatever level it is logged', () => {
    const said: UnexplainedReport[] = [];
    const beside: string[] = [];
    const log = unexplainedLog(
      (report) => said.push(report),
      (message) => beside.push(message),
    );
    for (const level of ['debug', 'info', 'warn', 'error'] as const) {
      log[level](level, { code: '42501' });
      log[level](level, { code: 'ECONNRESET' });
      log[level](level);
    }
    expect(said.map(({ unexplained }) => unexplained)).toEqual(
      ['debug', 'info', 'warn', 'error'].map((level) => `42501: ${level}`),
    );
    expect(new Set(beside)).toEqual(new Set(['warn', 'error']));
  });
});
