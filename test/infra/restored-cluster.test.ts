import type { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { givenFrom } from '../../infra/given.ts';
import { stages } from '../../infra/stages.ts';
import { emptyApp, synthesise, variablesOf } from './synthesised.ts';

const restoredCluster = {
  host: 'sealed-outbox-prod-2.cluster-abc123.eu-central-1.rds.amazonaws.com',
  resourceId: 'cluster-RESTORED1',
};

const importsOf = (template: Template): Set<string> =>
  new Set([...JSON.stringify(template.toJSON()).matchAll(/"Fn::ImportValue":"([^"]+)"/g)].map(([, name = '']) => name));

const exportsOf = (template: Template): Set<string> => {
  const { Outputs } = template.toJSON() as { Outputs: Record<string, { Export?: { Name: string } }> };
  return new Set(Object.values(Outputs).flatMap((output) => output.Export?.Name ?? []));
};

describe.each(['dev', 'prod'] as const)('a cluster that was restored, in stage %s', (stage) => {
  const before = synthesise(stage);
  const after = synthesise(stage, emptyApp(), { restoredCluster });

  it('leaves the data stack as it is: what the service stack of before imports is still exported', () => {
    expect(after.data.toJSON()).toEqual(before.data.toJSON());
    expect([...importsOf(before.service)].filter((name) => !exportsOf(after.data).has(name))).toEqual([]);
    expect([...importsOf(before.service)].filter((name) => name.includes('Cluster'))).toHaveLength(3);
  });

  it('is what every function with a database connects to and may log in to, in the network that they have', () => {
    const connected = after
      .resources('AWS::Lambda::Function')
      .filter(([, fn]) => variablesOf(fn)['DATABASE_HOST'] !== undefined);
    expect(connected.length).toBeGreaterThan(7);
    for (const [id, fn] of connected) {
      expect(variablesOf(fn)['DATABASE_HOST']).toBe(restoredCluster.host);
      const same = before.resources('AWS::Lambda::Function').find(([other]) => other === id);
      expect(fn.Properties['VpcConfig']).toEqual(same?.[1].Properties['VpcConfig']);
      expect(fn.Properties['VpcConfig']).toBeDefined();
    }
    const logins = JSON.stringify(after.service.toJSON()).match(/:dbuser:[^/]*\/[a-z_]+/g) ?? [];
    expect(logins.length).toBeGreaterThan(7);
    for (const login of logins) expect(login).toContain(restoredCluster.resourceId);
    expect(importsOf(after.service)).not.toContainEqual(expect.stringContaining('Cluster'));
  });

  it('has the alarm on its capacity', () => {
    const alarms = after
      .resources('AWS::CloudWatch::Alarm')
      .filter(([, { Properties }]) => Properties['MetricName'] === 'ACUUtilization');
    expect(alarms.map(([, { Properties }]) => Properties['Dimensions'])).toEqual([
      [{ Name: 'DBClusterIdentifier', Value: 'sealed-outbox-prod-2' }],
    ]);
  });
});

describe('the setting of a restored cluster', () => {
  const given = (restored: unknown, more: Record<string, unknown> = {}) =>
    givenFrom(
      stages.prod,
      (name) => ({ mailProvider: 'https://mail.example.com', restoredCluster: restored, ...more })[name],
      {},
    );

  it('need not be there', () => {
    for (const nothing of [undefined, '']) expect(given(nothing).restoredCluster).toBeUndefined();
    expect(given(JSON.stringify(restoredCluster)).restoredCluster).toEqual(restoredCluster);
  });

  it.each([
    ['no JSON', '{', /no "host"/],
    ['another host', { ...restoredCluster, host: 'db.example.com' }, /no "host" of the form/],
    ['no id', { host: restoredCluster.host }, /no "resourceId"/],
    ['an instance', { ...restoredCluster, resourceId: 'db-ABC' }, /no "resourceId" of the form cluster-/],
  ])('is refused with %s', (_, value, complaint) => {
    expect(() => given(value)).toThrow(complaint);
  });

  it('is refused where no cluster of the stage is there that it could take the place of', () => {
    const database = { host: 'h', port: 5432, name: 'n', resourceId: 'cluster-A' };
    expect(() => given(restoredCluster, { database })).toThrow(/this stage has none: give the new one as "database"/);
  });
});
