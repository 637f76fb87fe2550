import type { CompositeAlarm, MetricAlarm } from '@aws-sdk/client-cloudwatch';
import { table } from '../cloud/table.ts';

export interface AlarmStanding {
  /** Without the stack's name before it. */
  readonly name: string;
  readonly state: 'OK' | 'ALARM' | 'INSUFFICIENT_DATA';
  /** Since when; null where CloudWatch does not say. RFC 3339. */
  readonly since: string | null;
  readonly reason: string;
  /** Path of the document that says what to do; null where the alarm names none. */
  readonly runbook: string | null;
}

const ORDER = ['ALARM', 'INSUFFICIENT_DATA', 'OK'];

/** What is wrong first, then what nobody knows, each by name. */
export function standings(alarms: readonly (MetricAlarm | CompositeAlarm)[], stack: string): AlarmStanding[] {
  return alarms
    .map((alarm) => ({
      name: (alarm.AlarmName ?? '').replace(`${stack}-`, ''),
      state: alarm.StateValue ?? 'INSUFFICIENT_DATA',
      since: (alarm.StateTransitionedTimestamp ?? alarm.StateUpdatedTimestamp)?.toISOString() ?? null,
      reason: alarm.StateReason ?? '',
      runbook: /Runbook: (\S+)/.exec(alarm.AlarmDescription ?? '')?.[1] ?? null,
    }))
    .toSorted((a, b) => ORDER.indexOf(a.state) - ORDER.indexOf(b.state) || a.name.localeCompare(b.name));
}

/** A check that found no alarm to look at has looked at the wrong place: a mistyped stack or another region must not pass for one in which all is well. */
export const EXIT = { read: 0, raised: 1, unread: 3 } as const;

/** @param check whether a raised alarm is a failure */
export function exitCodeOf(alarms: readonly AlarmStanding[], check: boolean): number {
  if (!check) return EXIT.read;
  if (alarms.length === 0) return EXIT.unread;
  return alarms.some(({ state }) => state === 'ALARM') ? EXIT.raised : EXIT.read;
}

/** For people: the table, and what to do about those that are raised. */
export function renderedAlarms(alarms: readonly AlarmStanding[]): string {
  if (alarms.length === 0) return 'There is no alarm of this stack.';
  const raised = alarms.filter(({ state }) => state === 'ALARM');
  const unknown = alarms.filter(({ state }) => state === 'INSUFFICIENT_DATA');
  const rows = table(
    ['alarm', 'state', 'since', 'runbook'],
    alarms.map(({ name, state, since, runbook }) => [name, state, since, runbook]),
  );
  const reasons = raised.map(({ name, reason }) => `${name}: ${reason}`).join('\n');
  const summary = `${raised.length} of ${alarms.length} raised${unknown.length > 0 ? `, ${unknown.length} without data yet` : ''}.`;
  return [rows, ...(reasons === '' ? [] : [reasons]), summary].join('\n\n');
}
