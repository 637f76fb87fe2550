import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { definition } from '../../functions/sample/catalogue/definition.ts';
import { ruleOf } from '../../local/cloudwatch/alarms.ts';
import { HELD_RULES, LAG_RULES } from '../support/lag-rules.ts';
import { documentedMetrics } from '../support/metrics-table.ts';
import { ROOT, synthesise, variablesOf } from './synthesised.ts';

describe.each(['dev', 'prod', 'local'] as const)('alarms of stage %s', (stage) => {
  const { resources } = synthesise(stage);
  const alarms = resources('AWS::CloudWatch::Alarm').map(([, { Properties }]) => Properties);
  const named = (end: string) => alarms.find((alarm) => alarm['AlarmName'] === `sealed-outbox-${stage}-service-${end}`);

  it('watch every destination, the relay, every dead-letter queue and what every consumer holds', () => {
    const names = Object.keys(definition.destinations);
    const consumers = resources('AWS::Lambda::EventSourceMapping').map(
      ([, { Properties }]) =>
        variablesOf(resources('AWS::Lambda::Function').find(([id]) => id === Properties['FunctionName'].Ref)![1])[
          'POWERTOOLS_SERVICE_NAME'
        ] as string,
    );
    expect(consumers).toHaveLength(3);
    expect(new Set(alarms.map((alarm) => alarm['AlarmName']))).toEqual(
      new Set([
        ...names.map((name) => `sealed-outbox-${stage}-service-oldest-pending-age-${name}`),
        ...names.map((name) => `sealed-outbox-${stage}-service-parked-${name}`),
        ...names.map((name) => `sealed-outbox-${stage}-service-orphaned-${name}`),
        ...names.map((name) => `sealed-outbox-${stage}-service-dead-letters-${name}`),
        ...consumers.map((name) => `sealed-outbox-${stage}-service-held-${name}`),
        ...consumers.map((name) => `sealed-outbox-${stage}-service-gap-${name}`),
        `sealed-outbox-${stage}-service-relay-silent`,
        `sealed-outbox-${stage}-service-prune-lag-outbox`,
        `sealed-outbox-${stage}-service-prune-lag-inbox`,
        `sealed-outbox-${stage}-service-unroutable`,
        `sealed-outbox-${stage}-service-kms-errors`,
      ]),
    );
  });

  it('go off when measurements are missing, because then nobody knows', () => {
    for (const name of ['oldest-pending-age-ledger', 'relay-silent', 'prune-lag-outbox', 'prune-lag-inbox']) {
      expect(named(name)?.['TreatMissingData']).toBe('breaching');
    }
    // The two above say so; these keep what was last known.
    for (const name of ['parked-ledger', 'orphaned-ledger', 'held-ledger', 'gap-ledger']) {
      expect(named(name)?.['TreatMissingData']).toBe('ignore');
    }
    // SQS stops reporting for a queue that nobody uses.
    expect(named('dead-letters-ledger')?.['TreatMissingData']).toBe('notBreaching');
    // A function writes it where KMS fails, and nothing otherwise.
    expect(named('kms-errors')?.['TreatMissingData']).toBe('notBreaching');
  });

  it('read the metrics that docs/observability.md says, and no other of ours', () => {
    const ours = alarms.filter((alarm) => alarm['Namespace'] === 'SealedOutbox');
    const read = ours.map((alarm) => {
      const of = alarm['Dimensions'].find(({ Name }: { Name: string }) =>
        ['Destination', 'Consumer', 'Area'].includes(Name),
      )?.Value;
      const name = String(alarm['AlarmName']).replace(`sealed-outbox-${stage}-service-`, '');
      return `${alarm['MetricName']}: ${of === undefined ? name : name.replace(of, '…')}`;
    });
    const documented = documentedMetrics().flatMap(({ name, alarms: of }) => of.map((alarm) => `${name}: ${alarm}`));
    expect(new Set(read)).toEqual(new Set(documented));
  });

  it('want more than one bad measurement, and not every one', () => {
    for (const alarm of alarms) {
      expect(alarm['DatapointsToAlarm']).toBeGreaterThan(1);
      expect(alarm['EvaluationPeriods']).toBeGreaterThan(alarm['DatapointsToAlarm']);
    }
  });

  it("read the monitor's metrics under the dimensions that it writes", () => {
    const installation = { Name: 'Installation', Value: `sealed-outbox-${stage}-service` };
    expect(named('oldest-pending-age-ledger')).toMatchObject({
      Namespace: 'SealedOutbox',
      MetricName: 'OldestPendingAge',
      Dimensions: [{ Name: 'Destination', Value: 'ledger' }, installation],
      Statistic: 'Maximum',
      Threshold: stage === 'local' ? 15 : 120,
      ComparisonOperator: 'GreaterThanThreshold',
      Period: stage === 'local' ? 10 : 60,
    });
    for (const [name, metric] of [
      ['parked-ledger', 'Parked'],
      ['orphaned-ledger', 'Orphaned'],
    ] as const) {
      expect(named(name)).toMatchObject({
        MetricName: metric,
        Dimensions: [{ Name: 'Destination', Value: 'ledger' }, installation],
        Threshold: 0,
        ComparisonOperator: 'GreaterThanThreshold',
      });
    }
    for (const [name, waitsFor, threshold] of [
      ['held-analytics', 'person', 0],
      ['gap-analytics', 'turn', 900],
    ] as const) {
      expect(named(name)).toMatchObject({
        MetricName: 'OldestHeldAge',
        Dimensions: [{ Name: 'Consumer', Value: 'analytics' }, installation, { Name: 'WaitsFor', Value: waitsFor }],
        Statistic: 'Maximum',
        Threshold: threshold,
        ComparisonOperator: 'GreaterThanThreshold',
      });
    }
    expect(named('relay-silent')).toMatchObject({
      MetricName: 'RelaySilence',
      Dimensions: [installation],
      Threshold: stage === 'local' ? 90 : 240,
    });
    expect(named('prune-lag-inbox')).toMatchObject({
      MetricName: 'PruneLag',
      Dimensions: [{ Name: 'Area', Value: 'inbox' }, installation],
      Threshold: 86_400,
      Period: 900,
    });
    expect(named('kms-errors')).toMatchObject({
      MetricName: 'KmsErrors',
      Dimensions: [installation],
      Statistic: 'Sum',
      Threshold: 0,
    });
    expect(named('unroutable')).toMatchObject({ MetricName: 'Unroutable', Dimensions: [installation], Threshold: 0 });
    expect(named('dead-letters-ledger')).toMatchObject({
      Namespace: 'AWS/SQS',
      MetricName: 'ApproximateNumberOfMessagesVisible',
      Threshold: 0,
    });
  });

  it('tell the topic when they go off and when they go back', () => {
    for (const alarm of alarms) {
      for (const actions of [alarm['AlarmActions'], alarm['OKActions']]) {
        expect(JSON.stringify(actions)).toMatch(/Alarms[0-9A-F]{8}/);
      }
    }
  });

  it('name a runbook that exists and names them', () => {
    for (const alarm of alarms) {
      const file = /Runbook: (docs\/runbooks\/[a-z-]+\.md)$/.exec(alarm['AlarmDescription'])?.[1] ?? '';
      const kind = (alarm['AlarmName'] as string)
        .replace(`sealed-outbox-${stage}-service-`, '')
        .replace(/(ledger|analytics|notifications)$/, '');
      expect(readFileSync(join(ROOT, file), 'utf8')).toContain(`<installation>-${kind}`);
    }
  });
});

it('case 23: the alarms of stage prod are those that were seen to go off although no relay ever started, and for what is held', () => {
  const alarms = synthesise('prod').resources('AWS::CloudWatch::Alarm');
  for (const [name, rule] of Object.entries({ ...LAG_RULES, ...HELD_RULES })) {
    const found = alarms.find(([, { Properties }]) => String(Properties['AlarmName']).endsWith(name));
    expect(ruleOf(found?.[1].Properties ?? {})).toEqual(rule);
  }
});
