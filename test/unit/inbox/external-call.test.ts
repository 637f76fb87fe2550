import { describe, expect, it } from 'vitest';
import { type CallState, type CallStep, type Known, nextStep } from '../../../shared/inbox/external-call.ts';

interface Row {
  readonly state: CallState;
  readonly known: Known;
  readonly retry: CallStep;
  /** With the policy `hold`: before and after the time in which a call that was given up may still happen. */
  readonly hold: readonly [unsettled: CallStep, settled: CallStep];
}

const always = (step: CallStep) => ({ retry: step, hold: [step, step] as const });

/** The whole table: what is known from the provider counts only where a call may have happened. */
const TABLE: readonly Row[] = [
  ...(['none', 'possible', 'done', 'not-done', 'unknown', 'unavailable'] as const).flatMap((known): Row[] => [
    { state: 'uncalled', known, ...always('call') },
    { state: 'leased', known, ...always('wait') },
    { state: 'done', known, ...always('answer') },
    { state: 'held', known, ...always('refuse') },
  ]),
  { state: 'unanswered', known: 'none', retry: 'call', hold: ['hold', 'hold'] },
  { state: 'unanswered', known: 'possible', ...always('look-up') },
  { state: 'unanswered', known: 'done', ...always('record') },
  { state: 'unanswered', known: 'not-done', retry: 'call', hold: ['wait', 'call'] },
  { state: 'unanswered', known: 'unknown', retry: 'call', hold: ['hold', 'hold'] },
  { state: 'unanswered', known: 'unavailable', retry: 'call', hold: ['wait', 'wait'] },
];

describe('the next step of a call of another system', () => {
  it.each(TABLE)('of one that is $state, where the provider is $known', ({ state, known, retry, hold }) => {
    for (const settled of [false, true]) {
      expect(nextStep(state, 'retry', known, settled)).toBe(retry);
      expect(nextStep(state, 'hold', known, settled)).toBe(hold[settled ? 1 : 0]);
    }
  });

  it('is never a call where it may have happened, nobody says that it may be repeated, and nobody knows', () => {
    for (const known of ['none', 'possible', 'done', 'unknown', 'unavailable'] as const) {
      expect(nextStep('unanswered', 'hold', known, true)).not.toBe('call');
    }
  });
});
