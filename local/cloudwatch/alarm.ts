import type { Sample } from './samples.ts';

export type AlarmState = 'OK' | 'ALARM' | 'INSUFFICIENT_DATA';
export type Statistic = 'Average' | 'Sum' | 'Minimum' | 'Maximum' | 'SampleCount';
export type Comparison =
  | 'GreaterThanThreshold'
  | 'GreaterThanOrEqualToThreshold'
  | 'LessThanThreshold'
  | 'LessThanOrEqualToThreshold';
export type MissingData = 'missing' | 'ignore' | 'breaching' | 'notBreaching';

/** What an alarm watches for, in the words of CloudWatch's API. */
export interface AlarmRule {
  readonly periodSeconds: number;
  readonly statistic: Statistic;
  readonly comparison: Comparison;
  readonly threshold: number;
  /** N: the periods that are looked at. */
  readonly evaluationPeriods: number;
  /** M: how many of them must breach. */
  readonly datapointsToAlarm: number;
  readonly missingData: MissingData;
}

export interface Evaluation {
  readonly state: AlarmState;
  readonly reason: string;
}

/**
 * CloudWatch looks at a few periods more than N, so that one late sample leaves N to judge by. Its own documentation
 * works with five for N = 3.
 */
const MORE_PERIODS = 2;

/**
 * The state of an alarm at a moment, decided as CloudWatch does ("Configuring how CloudWatch alarms treat missing data"):
 *
 * - only whole periods count, aligned to the clock; the running one never does;
 * - with N or more real datapoints in the range, the newest N decide and missing ones are passed over;
 * - with fewer, all real ones count, and only the rest of N is filled as the alarm says;
 * - `missing` judges by what is there, and with nothing there the state is INSUFFICIENT_DATA;
 * - `ignore` lets filled-in periods neither raise an alarm nor end one.
 *
 * Pure: the samples of the alarm's metric, the present state and the moment (milliseconds since 1970) are given.
 */
export function evaluateAlarm(
  rule: AlarmRule,
  samples: readonly Sample[],
  current: AlarmState,
  now: number,
): Evaluation {
  const range = datapoints(rule, samples, now);
  const real = range.filter((value) => value !== undefined).slice(0, rule.evaluationPeriods);
  const breaching = real.filter((value) => breaches(rule, value)).length;
  const missing = rule.evaluationPeriods - real.length;
  const { datapointsToAlarm: needed } = rule;
  const say = (state: AlarmState): Evaluation => ({ state, reason: reason(rule, real, breaching, missing) });

  switch (rule.missingData) {
    case 'breaching':
      return say(breaching + missing >= needed ? 'ALARM' : 'OK');
    case 'notBreaching':
      return say(breaching >= needed ? 'ALARM' : 'OK');
    case 'missing':
      if (real.length === 0) return say('INSUFFICIENT_DATA');
      return say(breaching >= Math.min(needed, real.length) ? 'ALARM' : 'OK');
    case 'ignore':
      if (breaching >= needed) return say('ALARM');
      return say(real.length > 0 && breaching < Math.min(needed, real.length) ? 'OK' : current);
  }
}

/** One value per whole period, the newest first; undefined where nothing was measured. */
function datapoints(rule: AlarmRule, samples: readonly Sample[], now: number): (number | undefined)[] {
  const period = rule.periodSeconds * 1000;
  const end = Math.floor(now / period) * period;
  return Array.from({ length: rule.evaluationPeriods + MORE_PERIODS }, (_, back) => {
    const from = end - (back + 1) * period;
    const values = samples.filter(({ at }) => at >= from && at < from + period).map(({ value }) => value);
    return values.length === 0 ? undefined : aggregate(rule.statistic, values);
  });
}

function aggregate(statistic: Statistic, values: readonly number[]): number {
  const sum = values.reduce((total, value) => total + value, 0);
  switch (statistic) {
    case 'Average':
      return sum / values.length;
    case 'Sum':
      return sum;
    case 'Minimum':
      return Math.min(...values);
    case 'Maximum':
      return Math.max(...values);
    case 'SampleCount':
      return values.length;
  }
}

function breaches({ comparison, threshold }: AlarmRule, value: number): boolean {
  switch (comparison) {
    case 'GreaterThanThreshold':
      return value > threshold;
    case 'GreaterThanOrEqualToThreshold':
      return value >= threshold;
    case 'LessThanThreshold':
      return value < threshold;
    case 'LessThanOrEqualToThreshold':
      return value <= threshold;
  }
}

function reason(rule: AlarmRule, real: readonly number[], breaching: number, missing: number): string {
  const values = real.length === 0 ? 'no datapoint' : `datapoints ${real.map((value) => round(value)).join(', ')}`;
  const filled = missing > 0 ? `, ${missing} missing (treated as ${rule.missingData})` : '';
  return `${values}, newest first${filled}: ${breaching} breach ${rule.comparison} ${rule.threshold}, ${rule.datapointsToAlarm} of ${rule.evaluationPeriods} are needed`;
}

const round = (value: number): number => Math.round(value * 100) / 100;
