import { describe, expect, it } from 'vitest';
import { type AlarmRule, type AlarmState, evaluateAlarm, type MissingData } from '../../../local/cloudwatch/alarm.ts';
import type { Sample } from '../../../local/cloudwatch/samples.ts';

const RULE: AlarmRule = {
  periodSeconds: 60,
  statistic: 'Maximum',
  comparison: 'GreaterThanThreshold',
  threshold: 10,
  evaluationPeriods: 3,
  datapointsToAlarm: 3,
  missingData: 'missing',
};

/** A whole minute, so that periods are easy to count from it. */
const NOON = Date.UTC(2026, 0, 1, 12);

const sample = (at: number, value: number): Sample => ({
  namespace: 'N',
  name: 'M',
  dimensions: {},
  unit: 'None',
  at,
  value,
});

/** As CloudWatch's documentation draws it: oldest first, X breaches, 0 does not, - is missing. */
function drawn(picture: string): Sample[] {
  const marks = picture.split(' ');
  return marks.flatMap((mark, index) => {
    if (mark === '-') return [];
    return [sample(NOON - (marks.length - index) * 60_000 + 5_000, mark === 'X' ? 11 : 10)];
  });
}

/** What the documentation calls "retain current state". */
const RETAIN = Symbol('retain');
type Expected = AlarmState | typeof RETAIN;
const TREATMENTS: readonly MissingData[] = ['missing', 'ignore', 'breaching', 'notBreaching'];

function expectAll(rule: AlarmRule, picture: string, expected: readonly Expected[]): void {
  for (const [index, missingData] of TREATMENTS.entries()) {
    for (const current of ['OK', 'ALARM'] as const) {
      const { state } = evaluateAlarm({ ...rule, missingData }, drawn(picture), current, NOON);
      const wanted = expected[index] === RETAIN ? current : expected[index];
      expect(state, `${picture} with ${missingData}, now ${current}`).toBe(wanted);
    }
  }
}

describe('evaluateAlarm, the tables of CloudWatch’s documentation', () => {
  it.each<[string, Expected[]]>([
    ['0 - X - X', ['OK', 'OK', 'OK', 'OK']],
    ['- - - - 0', ['OK', 'OK', 'OK', 'OK']],
    ['- - - - -', ['INSUFFICIENT_DATA', RETAIN, 'ALARM', 'OK']],
    ['0 X X - X', ['ALARM', 'ALARM', 'ALARM', 'ALARM']],
    ['- - X - -', ['ALARM', RETAIN, 'ALARM', 'OK']],
  ])('3 of 3: %s', (picture, expected) => expectAll(RULE, picture, expected));

  it.each<[string, Expected[]]>([
    ['0 - X - X', ['ALARM', 'ALARM', 'ALARM', 'ALARM']],
    ['0 0 X 0 X', ['ALARM', 'ALARM', 'ALARM', 'ALARM']],
    ['0 - X - -', ['OK', 'OK', 'ALARM', 'OK']],
    ['- - - - 0', ['OK', 'OK', 'ALARM', 'OK']],
    ['- - - - X', ['ALARM', RETAIN, 'ALARM', 'OK']],
  ])('2 of 3: %s', (picture, expected) => expectAll({ ...RULE, datapointsToAlarm: 2 }, picture, expected));
});

describe('evaluateAlarm', () => {
  const state = (rule: AlarmRule, samples: readonly Sample[], now = NOON): AlarmState =>
    evaluateAlarm(rule, samples, 'OK', now).state;
  const single = { ...RULE, evaluationPeriods: 1, datapointsToAlarm: 1 };

  it('leaves the running period out until it is over', () => {
    const running = [sample(NOON - 30_000, 0), sample(NOON + 1_000, 99)];
    expect(state(single, running, NOON + 59_999)).toBe('OK');
    expect(state(single, running, NOON + 60_000)).toBe('ALARM');
  });

  it('counts a sample on the edge of two periods in the later one', () => {
    const rule = { ...single, missingData: 'notBreaching' as const };
    expect(state(rule, [sample(NOON, 99)], NOON)).toBe('OK');
    expect(state(rule, [sample(NOON, 99)], NOON + 60_000)).toBe('ALARM');
  });

  it('forgets what lies before its range', () => {
    const old = [sample(NOON - 4 * 60_000, 99)];
    expect(state(single, old)).toBe('INSUFFICIENT_DATA');
    expect(state(single, [sample(NOON - 3 * 60_000, 99)])).toBe('ALARM');
  });

  it.each([
    ['Average', 10.5, 'OK'],
    ['Average', 10.4, 'ALARM'],
    ['Sum', 20.9, 'ALARM'],
    ['Minimum', 9, 'OK'],
    ['Maximum', 11, 'ALARM'],
    ['SampleCount', 1, 'ALARM'],
    ['SampleCount', 2, 'OK'],
  ] as const)('judges %s against %d', (statistic, threshold, expected) => {
    const samples = [sample(NOON - 50_000, 9), sample(NOON - 10_000, 12)];
    expect(state({ ...single, statistic, threshold }, samples)).toBe(expected);
  });

  it.each([
    ['GreaterThanThreshold', ['OK', 'OK', 'ALARM']],
    ['GreaterThanOrEqualToThreshold', ['OK', 'ALARM', 'ALARM']],
    ['LessThanThreshold', ['ALARM', 'OK', 'OK']],
    ['LessThanOrEqualToThreshold', ['ALARM', 'ALARM', 'OK']],
  ] as const)('compares with %s below, at and above the threshold', (comparison, expected) => {
    const states = [9, 10, 11].map((value) => state({ ...single, comparison }, [sample(NOON - 1, value)]));
    expect(states).toEqual(expected);
  });

  it('says what it saw', () => {
    const { reason } = evaluateAlarm({ ...RULE, missingData: 'breaching' }, drawn('X - 0'), 'OK', NOON);
    expect(reason).toBe(
      'datapoints 10, 11, newest first, 1 missing (treated as breaching): 1 breach GreaterThanThreshold 10, 3 of 3 are needed',
    );
  });
});
