import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { definition } from '../../functions/sample/catalogue/definition.ts';
import { ruleOf } from '../../local/cloudwatch/alarms.ts';
import { HELD_RULES, LAG_RULES, RETURNED_RULES } from '../support/lag-rules.ts';
import { documentedMetrics } from '../support/metrics-table.ts';
import { ROOT, synthesise, variablesOf } from './synthesised.ts';

describe.each(['dev', 'prod', 'local'] as const)('alarms of stage %s', (stage) => {
  const { resources } = synthesise(stage);
  const alarms = resources('AWS::CloudWatch::Alarm').map(([, { Properties }]) => Properties);
  const named = (end: string) => alarms.find((alarm) => alarm['AlarmName'] === `sealed-outbox-${stage}-service-${end}`);

  const nameOf = (alarm: (typeof alarms)[number]): string =>
    String(alarm['AlarmName']).replace(`sealed-outbox-${stage}-service-`, '');

  it('watch every destination, queue, consumer and function, the relay, the janitor, the keys and the database', () => {
    const names = Object.keys(definition.destinations);
    const consumers = resources('AWS::Lambda::EventSourceMapping').map(
      ([, { Properties }]) =>
        variablesOf(resources('AWS::Lambda::Function').find(([id]) => id === Properties['FunctionName'].Ref)![1])[
          'POWERTOOLS_SERVICE_NAME'
        ] as string,
    );
    expect(consumers).toHaveLength(3);
    const functions = resources('AWS::Lambda::Function')
      .map(([, fn]) => variablesOf(fn)['POWERTOOLS_SERVICE_NAME'] as string | undefined)
      // Migrations run in a deployment, which fails with them.
      .filter((name) => name !== undefined && name !== 'migrate');
    expect(functions).toHaveLength(8);
    expect(new Set(alarms.map((alarm) => alarm['AlarmName']))).toEqual(
      new Set([
        ...names.map((name) => `sealed-outbox-${stage}-service-oldest-pending-age-${name}`),
        ...names.map((name) => `sealed-outbox-${stage}-service-parked-${name}`),
        ...names.map((name) => `sealed-outbox-${stage}-service-orphaned-${name}`),
        ...names.map((name) => `sealed-outbox-${stage}-service-pending-${name}`),
        ...names.map((name) => `sealed-outbox-${stage}-service-blocked-${name}`),
        ...names.map((name) => `sealed-outbox-${stage}-service-queue-age-${name}`),
        ...consumers.map((name) => `sealed-outbox-${stage}-service-effect-age-${name}`),
        ...consumers.map((name) => `sealed-outbox-${stage}-service-returned-${name}`),
        ...functions.flatMap((name) =>
          ['errors', 'throttles', 'duration'].map((what) => `sealed-outbox-${stage}-service-${what}-${name}`),
        ),
        ...['connections', 'oldest-transaction', 'snapshot-age', 'transaction-id-age'].map(
          (name) => `sealed-outbox-${stage}-service-${name}`,
        ),
        // The local cloud has no cluster.
        ...(stage === 'local' ? [] : [`sealed-outbox-${stage}-service-capacity`]),
        ...names.map((name) => `sealed-outbox-${stage}-service-dead-letters-${name}`),
        ...consumers.map((name) => `sealed-outbox-${stage}-service-held-${name}`),
        ...consumers.map((name) => `sealed-outbox-${stage}-service-gap-${name}`),
        `sealed-outbox-${stage}-service-relay-silent`,
        `sealed-outbox-${stage}-service-prune-lag-outbox`,
        `sealed-outbox-${stage}-service-prune-lag-inbox`,
        `sealed-outbox-${stage}-service-unroutable`,
        `sealed-outbox-${stage}-service-kms-errors`,
        `sealed-outbox-${stage}-service-canary-failed`,
        `sealed-outbox-${stage}-service-canary-age`,
        `sealed-outbox-${stage}-service-branch-key-age`,
        `sealed-outbox-${stage}-service-rewrap-lag`,
        `sealed-outbox-${stage}-service-index-rotation-lag`,
        `sealed-outbox-${stage}-service-erasure-rate`,
        `sealed-outbox-${stage}-service-prune-lag-erasure`,
        `sealed-outbox-${stage}-service-erasures-unapplied`,
      ]),
    );
  });

  it.each([
    // Nobody knows then, and no other alarm would say so.
    ['breaching', /^(oldest-pending-age-.*|relay-silent|prune-lag-.*|canary-age)$/],
    // Those above say so; these keep what was last known.
    [
      'ignore',
      /^((pending|parked|blocked|orphaned|held|gap)-.*|unroutable|canary-failed|branch-key-age|rewrap-lag|index-rotation-lag|erasures-unapplied|connections|oldest-transaction|snapshot-age|transaction-id-age|capacity)$/,
    ],
    // Nothing is written while nothing happens: by SQS of an idle queue, by Lambda of a function that is not called, by a function about what fails.
    [
      'notBreaching',
      /^((dead-letters|queue-age|effect-age|returned|errors|throttles|duration)-.*|kms-errors|erasure-rate)$/,
    ],
  ])('take missing measurements as %s, where that is right', (choice, names) => {
    const choosing = alarms.filter((alarm) => alarm['TreatMissingData'] === choice).map(nameOf);
    expect(choosing.filter((name) => !names.test(name))).toEqual([]);
    expect(choosing.toSorted()).toEqual(
      alarms
        .map(nameOf)
        .filter((name) => names.test(name))
        .toSorted(),
    );
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
      // An hour's sum: waiting for another would be waiting too long.
      if (alarm['MetricName'] === 'ErasuresRequested') continue;
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
      ['gap-analytics', 'turn', stage === 'local' ? 5 : 900],
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
      Period: stage === 'local' ? 10 : 900,
    });
    expect(named('kms-errors')).toMatchObject({
      MetricName: 'KmsErrors',
      Dimensions: [installation],
      Statistic: 'Sum',
      Threshold: 0,
    });
    expect(named('canary-failed')).toMatchObject({
      MetricName: 'CanaryFailed',
      Dimensions: [installation],
      Statistic: 'Maximum',
      Threshold: 0,
    });
    expect(named('erasure-rate')).toMatchObject({
      MetricName: 'ErasuresRequested',
      Statistic: 'Sum',
      Period: stage === 'local' ? 10 : 3600,
      Threshold: stage === 'local' ? 1 : 50,
      EvaluationPeriods: 1,
    });
    expect(named('prune-lag-erasure')).toMatchObject({
      MetricName: 'PruneLag',
      Dimensions: [{ Name: 'Area', Value: 'erasure' }, installation],
      Threshold: 3600,
    });
    expect(named('canary-age')).toMatchObject({
      MetricName: 'CanaryAge',
      Dimensions: [installation],
      Threshold: 2 * 86_400,
      Period: stage === 'local' ? 10 : 900,
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

  it.each([
    ['pending-ledger', { MetricName: 'Pending', Threshold: stage === 'local' ? 10 : 100_000 }],
    ['blocked-ledger', { MetricName: 'Blocked', Threshold: stage === 'local' ? 1 : 1000 }],
    [
      'queue-age-ledger',
      {
        Namespace: 'AWS/SQS',
        MetricName: 'ApproximateAgeOfOldestMessage',
        Threshold: stage === 'local' ? 10 : 600,
      },
    ],
    ['effect-age-ledger', { MetricName: 'EffectAge', Threshold: stage === 'local' ? 10 : 900, Statistic: 'Maximum' }],
    ['returned-ledger', { MetricName: 'Receives', Threshold: 3, Statistic: 'Maximum', Period: 300 }],
    ['branch-key-age', { MetricName: 'BranchKeyAge', Threshold: 97 * 86_400, Statistic: 'Maximum' }],
    ['rewrap-lag', { MetricName: 'RewrapLag', Threshold: 86_400, Statistic: 'Maximum' }],
    ['index-rotation-lag', { MetricName: 'IndexRotationLag', Threshold: 86_400, Statistic: 'Maximum' }],
    [
      'errors-ledger',
      {
        Namespace: 'AWS/Lambda',
        MetricName: 'Errors',
        Threshold: 0,
        Statistic: 'Sum',
        Period: stage === 'local' ? 10 : 300,
      },
    ],
    ['throttles-api', { Namespace: 'AWS/Lambda', MetricName: 'Throttles', Threshold: 0, Statistic: 'Sum' }],
    // 90 percent of 180 s and of 5 minutes, which end by themselves after 150 s and 4 minutes; of the API's 25 s.
    ['duration-relay', { Namespace: 'AWS/Lambda', MetricName: 'Duration', Threshold: 162_000, Statistic: 'Maximum' }],
    ['duration-janitor', { Threshold: 270_000 }],
    ['duration-api', { Threshold: 22_500 }],
    ['connections', { MetricName: 'ConnectionsUsed', Threshold: stage === 'local' ? 40 : 80 }],
    ['oldest-transaction', { MetricName: 'OldestTransactionAge', Threshold: stage === 'local' ? 10 : 900 }],
    ['snapshot-age', { MetricName: 'SnapshotAge', Threshold: stage === 'local' ? 2_000 : 1_000_000 }],
    ['transaction-id-age', { MetricName: 'TransactionIdAge', Threshold: stage === 'local' ? 150_000 : 500_000_000 }],
  ])('%s measures what it says against its threshold', (name, expected) => {
    expect(named(name)).toMatchObject({ ...expected, ComparisonOperator: 'GreaterThanThreshold' });
  });

  it('name a runbook that exists, names them, and says symptom, meaning, where to look, what to do and how to verify', () => {
    for (const alarm of alarms) {
      const file = /Runbook: (docs\/runbooks\/[a-z-]+\.md)$/.exec(alarm['AlarmDescription'])?.[1] ?? '';
      const kind = nameOf(alarm).replace(
        /(?<=-)(ledger|analytics|notifications|relay|monitor|janitor|operator|api)$/,
        '',
      );
      const runbook = readFileSync(join(ROOT, file), 'utf8');
      expect(runbook).toContain(`<installation>-${kind}`);
      const sections = [...runbook.matchAll(/^## (.+)$/gm)].map(([, title]) => title);
      expect(sections, file).toEqual(expect.arrayContaining(['Symptom', 'Meaning', 'Look', 'Act', 'Verify']));
    }
  });
});

it.each(['dev', 'prod'] as const)("watches the capacity of the cluster of stage %s, by the cluster's name", (stage) => {
  const { resources } = synthesise(stage);
  const [, alarm] = resources('AWS::CloudWatch::Alarm').find(
    ([, { Properties }]) => Properties['MetricName'] === 'ACUUtilization',
  )!;
  expect(alarm.Properties).toMatchObject({ Namespace: 'AWS/RDS', Threshold: 90, Statistic: 'Maximum' });
  const cluster = resources('AWS::RDS::DBCluster').map(([name]) => name)[0];
  expect(JSON.stringify(alarm.Properties['Dimensions'])).toMatch(new RegExp(`"DBClusterIdentifier".*${cluster}`));
});

it('case 23: the alarms of stage prod are those that were seen to go off although no relay ever started, and for what is held', () => {
  const alarms = synthesise('prod').resources('AWS::CloudWatch::Alarm');
  for (const [name, rule] of Object.entries({ ...LAG_RULES, ...HELD_RULES, ...RETURNED_RULES })) {
    const found = alarms.find(([, { Properties }]) => String(Properties['AlarmName']).endsWith(name));
    expect(ruleOf(found?.[1].Properties ?? {})).toEqual(rule);
  }
});
