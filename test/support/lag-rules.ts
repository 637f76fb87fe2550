import type { AlarmRule } from '../../local/cloudwatch/alarm.ts';

/** The two alarms that see events wait, as the template of stage prod has them: `test/infra/alarms.test.ts` holds these against it. */
export const LAG_RULES: Readonly<Record<'oldest-pending-age-ledger' | 'relay-silent', AlarmRule>> = {
  'oldest-pending-age-ledger': rule(120),
  'relay-silent': rule(240),
};

/** The two alarms that see what a consumer holds, likewise. */
export const HELD_RULES: Readonly<Record<'held-ledger' | 'gap-ledger', AlarmRule>> = {
  'held-ledger': { ...rule(0), evaluationPeriods: 3, datapointsToAlarm: 2, missingData: 'ignore' },
  'gap-ledger': { ...rule(900), missingData: 'ignore' },
};

/** The alarm that sees messages go back again and again, likewise. */
export const RETURNED_RULES: Readonly<Record<'returned-ledger', AlarmRule>> = {
  'returned-ledger': {
    ...rule(3),
    periodSeconds: 300,
    evaluationPeriods: 6,
    datapointsToAlarm: 2,
    missingData: 'notBreaching',
  },
};

function rule(threshold: number): AlarmRule {
  return {
    periodSeconds: 60,
    statistic: 'Maximum',
    comparison: 'GreaterThanThreshold',
    threshold,
    evaluationPeriods: 5,
    datapointsToAlarm: 3,
    missingData: 'breaching',
  };
}
