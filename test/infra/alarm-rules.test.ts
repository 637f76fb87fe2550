import { describe, expect, it } from 'vitest';
import { type AlarmRule, type AlarmState, evaluateAlarm } from '../../local/cloudwatch/alarm.ts';
import { ruleOf } from '../../local/cloudwatch/alarms.ts';
import type { Sample } from '../../local/cloudwatch/samples.ts';
import { synthesise } from './synthesised.ts';

const NOW = Date.UTC(2030, 0, 1, 12);
const alarms = synthesise('prod')
  .resources('AWS::CloudWatch::Alarm')
  .map(([, { Properties }]) => Properties);

/** A measurement in each of the last periods: so many that an alarm looks at no other. */
function measured(rule: AlarmRule, value: number): Sample[] {
  return Array.from({ length: rule.evaluationPeriods + 2 }, (_, back) => ({
    namespace: 'any',
    name: 'any',
    dimensions: {},
    unit: 'None',
    value,
    at: NOW - (back + 1) * rule.periodSeconds * 1000,
  }));
}

// What no emulator can bring about goes off here at least once: by the deployed rule, on measurements as AWS would make them.
describe.each(alarms.map((alarm) => [String(alarm['AlarmName']), alarm] as const))('%s', (_, alarm) => {
  const rule = ruleOf(alarm)!;
  const state = (samples: readonly Sample[], before: AlarmState): AlarmState =>
    evaluateAlarm(rule, samples, before, NOW).state;

  it('goes off above its threshold, ends at it, and takes silence as it says', () => {
    expect(state(measured(rule, rule.threshold + 1), 'OK')).toBe('ALARM');
    expect(state(measured(rule, rule.threshold), 'ALARM')).toBe('OK');
    const silent = { breaching: ['ALARM', 'ALARM'], notBreaching: ['OK', 'OK'], ignore: ['OK', 'ALARM'], missing: [] };
    expect([state([], 'OK'), state([], 'ALARM')]).toEqual(silent[rule.missingData]);
  });

  it('does not go off by one bad measurement, unless each counts for an hour', () => {
    const once = measured(rule, rule.threshold).map((sample, back) =>
      back === 0 ? { ...sample, value: rule.threshold + 1 } : sample,
    );
    expect(state(once, 'OK')).toBe(rule.periodSeconds >= 3600 ? 'ALARM' : 'OK');
  });
});
