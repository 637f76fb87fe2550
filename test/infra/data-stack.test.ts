import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Template } from 'aws-cdk-lib/assertions';
import { describe, expect, it } from 'vitest';
import { roleOf, statementsOfRole } from './rights.ts';
import { emptyApp, type Resource, synthesise, variablesOf } from './synthesised.ts';

interface Inventory {
  /** How many resources of each type a stage has, both stacks together. */
  readonly types: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** Logical ids of what holds data or is hard to replace: a changed one is another resource, and the old one goes or stays behind. */
  readonly kept: Readonly<Record<string, readonly string[]>>;
}

const committed = JSON.parse(readFileSync(join(import.meta.dirname, 'inventory.json'), 'utf8')) as Inventory;

/** Types whose replacement loses something: rows, messages, keys, addresses that others know. */
const KEPT =
  /^AWS::(?:RDS::|KMS::Key|SQS::Queue$|S3::Bucket$|Events::EventBus|SNS::Topic$|EC2::(?:VPC$|Subnet$|SecurityGroup$|EIP))/;

describe.each(['dev', 'prod'] as const)('the inventory of stage %s', (stage) => {
  const stacks = synthesise(stage);
  const templates = [stacks.data, stacks.service].map(
    (template) => (template.toJSON() as { Resources: Record<string, Resource & { Type: string }> }).Resources,
  );
  const all = templates.flatMap((resources) => Object.entries(resources));

  it('is the one in inventory.json, by type and count: whoever adds or removes a resource says so there', () => {
    const counts: Record<string, number> = {};
    for (const [, { Type }] of all) counts[Type] = (counts[Type] ?? 0) + 1;
    expect(counts).toEqual(committed.types[stage]);
  });

  it('keeps the logical ids of what holds data', () => {
    const ids = all.filter(([, { Type }]) => KEPT.test(Type)).map(([id, { Type }]) => `${Type} ${id}`);
    expect(ids.toSorted()).toEqual(committed.kept[stage]);
  });
});

describe.each(['dev', 'prod'] as const)('the network of stage %s', (stage) => {
  const stacks = synthesise(stage);
  const { resources } = stacks;
  const subnets = resources('AWS::EC2::Subnet');
  const endpoints = resources('AWS::EC2::VPCEndpoint').map(([, { Properties }]) => Properties);
  const idsOf = (list: readonly unknown[], start: string): string[] =>
    list.map((it) => JSON.stringify(it)).filter((it) => it.includes(start));

  it('has isolated subnets in two or three zones, and nothing in any subnet has an address on the internet', () => {
    const isolated = subnets.filter(([id]) => id.includes('Isolated'));
    const zones = isolated.map(([, { Properties }]) => JSON.stringify(Properties['AvailabilityZone']));
    expect(new Set(zones).size).toBe(stage === 'prod' ? 3 : 2);
    expect(isolated).toHaveLength(zones.length);
    for (const [, { Properties }] of subnets) expect(Properties['MapPublicIpOnLaunch']).toBe(false);
    const routed = resources('AWS::EC2::Route').map(([id]) => id);
    expect(routed.filter((id) => id.includes('Isolated'))).toEqual([]);
  });

  it('has an endpoint for each service that functions call, S3 as a gateway, in as many zones as functions are', () => {
    const services = endpoints.map((endpoint) => JSON.stringify(endpoint['ServiceName']).match(/\.(\w+)"\]/)?.[1]);
    expect(services).toHaveLength(4);
    expect(new Set(services)).toEqual(new Set(['events', 'kms', 's3', 'sqs']));
    for (const endpoint of endpoints.filter(({ VpcEndpointType }) => VpcEndpointType === 'Interface')) {
      expect(endpoint['PrivateDnsEnabled']).toBe(true);
      expect(endpoint['SubnetIds']).toHaveLength(stage === 'prod' ? 3 : 1);
    }
  });

  it('lets no keys of another account through its endpoints, and nothing into buckets of another', () => {
    const account = { Ref: 'AWS::AccountId' };
    for (const endpoint of endpoints) {
      const [statement, ...others] = endpoint['PolicyDocument'].Statement;
      expect(others).toEqual([]);
      expect(statement.Condition.StringEquals).toEqual({
        'aws:PrincipalAccount': account,
        ...(endpoint['VpcEndpointType'] === 'Gateway' && { 'aws:ResourceAccount': account }),
      });
    }
  });

  it('opens the database to functions alone, endpoints to functions alone, and nothing else to anybody', () => {
    const rules = resources('AWS::EC2::SecurityGroupIngress').map(
      ([, { Properties }]) =>
        `${Properties['SourceSecurityGroupId']['Fn::GetAtt'][0]} > ${Properties['GroupId']['Fn::GetAtt'][0]}:${Properties['FromPort']}-${Properties['ToPort']}`,
    );
    const name = (rule: string): string => rule.replaceAll(/[0-9A-F]{8}(?=[ :]|$)/g, '');
    expect(rules.map(name).toSorted()).toEqual([
      'NetworkEgressFunctions > ClusterSecurityGroup:5432-5432',
      'NetworkEgressFunctions > NetworkEndpoints:443-443',
      'NetworkFunctions > ClusterSecurityGroup:5432-5432',
      'NetworkFunctions > NetworkEndpoints:443-443',
    ]);
    for (const [, { Properties }] of resources('AWS::EC2::SecurityGroup')) {
      expect(Properties).not.toHaveProperty('SecurityGroupIngress');
      const out = (Properties['SecurityGroupEgress'] as { IpProtocol: string; ToPort: number }[])
        // CDK's way of saying "none".
        .filter(({ IpProtocol }) => IpProtocol !== 'icmp');
      for (const rule of out) expect(rule).toMatchObject({ IpProtocol: 'tcp', FromPort: 443, ToPort: 443 });
    }
  });

  it('records what it refuses', () => {
    const [[, log]] = resources('AWS::EC2::FlowLog') as [[string, Resource]];
    expect(log.Properties).toMatchObject({ TrafficType: 'REJECT', LogDestinationType: 'cloud-watch-logs' });
  });

  it('puts every function of ours into it: that of the mails where there is a way out, the others where there is none', () => {
    const functions = resources('AWS::Lambda::Function').filter(([, { Properties }]) => Properties['VpcConfig']);
    expect(functions).toHaveLength(resources('AWS::Lambda::Function').length - 1);
    for (const [id, fn] of functions) {
      const { SubnetIds, SecurityGroupIds } = fn.Properties['VpcConfig'];
      const mail = id.startsWith('Notifications');
      const s3 = statementsOfRole(roleOf(fn), stacks).some(({ Action }) => JSON.stringify(Action).includes('"s3:'));
      expect(idsOf(SubnetIds, mail ? 'EgressSubnet' : 'IsolatedSubnet')).toHaveLength(stage === 'prod' ? 3 : 1);
      expect(SubnetIds).toHaveLength(stage === 'prod' ? 3 : 1);
      expect(idsOf(SecurityGroupIds, mail ? 'NetworkEgressFunctions' : 'NetworkFunctions')).toHaveLength(1);
      expect(idsOf(SecurityGroupIds, 'NetworkS3Functions')).toHaveLength(s3 && !mail ? 1 : 0);
      expect(SecurityGroupIds).toHaveLength(s3 && !mail ? 2 : 1);
    }
  });

  it('lets functions send to the database and to endpoints; to other addresses those that use S3, and that of the mails', () => {
    const anywhere = resources('AWS::EC2::SecurityGroup')
      .filter(([, { Properties }]) => JSON.stringify(Properties['SecurityGroupEgress']).includes('0.0.0.0/0'))
      .map(([id]) => id.replace(/[0-9A-F]{8}$/, ''));
    expect(anywhere.toSorted()).toEqual(['NetworkEgressFunctions', 'NetworkS3Functions']);
    const mailing = resources('AWS::Lambda::Function')
      .filter(([, { Properties }]) => JSON.stringify(Properties['VpcConfig'] ?? '').includes('EgressFunctions'))
      .map(([, fn]) => variablesOf(fn)['POWERTOOLS_SERVICE_NAME']);
    expect(mailing).toEqual(['notifications']);
  });
});

describe.each(['dev', 'prod'] as const)('the database of stage %s', (stage) => {
  const { data, resources } = synthesise(stage);
  const [[, cluster]] = resources('AWS::RDS::DBCluster') as [[string, Resource]];
  const instances = resources('AWS::RDS::DBInstance').map(([, { Properties }]) => Properties);

  it('is Aurora PostgreSQL 17, encrypted with a key of our own that is rotated', () => {
    const [[key, { Properties }]] = resources('AWS::KMS::Key').filter(([id]) => id.startsWith('Cluster')) as [
      [string, Resource],
    ];
    expect(Properties['EnableKeyRotation']).toBe(true);
    const denied = (Properties['KeyPolicy'].Statement as { Effect: string; Action: unknown }[])
      .filter(({ Effect }) => Effect === 'Deny')
      .map(({ Action }) => Action);
    // Without it neither the database nor a backup opens. Grants stay allowed: RDS makes them for itself.
    expect(denied).toEqual(stage === 'prod' ? [['kms:DisableKey', 'kms:ScheduleKeyDeletion']] : []);
    expect(Properties['PendingWindowInDays']).toBe(stage === 'prod' ? 30 : 7);
    const told = resources('AWS::Events::Rule').find(([id]) => id.startsWith('KeyAtRiskStorage'))?.[1].Properties;
    expect(JSON.stringify(told?.['EventPattern'])).toContain(key);
    expect(told?.['EventPattern'].detail.eventName).toEqual(
      expect.arrayContaining(['DisableKey', 'ScheduleKeyDeletion', 'PutKeyPolicy']),
    );
    expect(told?.['EventPattern'].detail.eventName).not.toContain('CreateGrant');
    expect(cluster.Properties).toMatchObject({
      Engine: 'aurora-postgresql',
      EngineVersion: expect.stringMatching(/^17\./),
      StorageEncrypted: true,
      KmsKeyId: { 'Fn::GetAtt': [key, 'Arn'] },
      PerformanceInsightsKmsKeyId: { 'Fn::GetAtt': [key, 'Arn'] },
    });
  });

  it('takes IAM tokens from everybody, the master user included: there is no password and no secret', () => {
    expect(cluster.Properties).toMatchObject({
      EnableIAMDatabaseAuthentication: true,
      MasterUserAuthenticationType: 'iam-db-auth',
      MasterUsername: 'sealed_migrator',
    });
    expect(Object.keys(cluster.Properties).filter((name) => /password|secret/i.test(name))).toEqual([]);
    expect(JSON.stringify(data.toJSON())).not.toMatch(/SecretsManager|unsafe|MasterUserPassword/);
  });

  it('is reached by TLS only, ends sessions that hold a transaction and do nothing, and logs no value that anybody wrote', () => {
    const [[id, group]] = resources('AWS::RDS::DBClusterParameterGroup') as [[string, Resource]];
    expect(cluster.Properties['DBClusterParameterGroupName']).toEqual({ Ref: id });
    expect(group.Properties).toMatchObject({
      Family: 'aurora-postgresql17',
      Parameters: {
        'rds.force_ssl': '1',
        idle_in_transaction_session_timeout: '60000',
        log_statement: 'none',
        log_min_error_statement: 'panic',
        log_parameter_max_length: '0',
        log_parameter_max_length_on_error: '0',
        log_error_verbosity: 'terse',
      },
    });
    for (const instance of instances) {
      expect(instance).toMatchObject({ PubliclyAccessible: false, CACertificateIdentifier: 'rds-ca-rsa2048-g1' });
    }
  });

  it('has a second instance in another zone in prod, and one instance in one zone in dev', () => {
    const zones = instances.map((instance) => JSON.stringify(instance['AvailabilityZone']));
    expect(new Set(zones).size).toBe(stage === 'prod' ? 2 : 1);
    expect(instances).toHaveLength(stage === 'prod' ? 2 : 1);
    // Tier 0 and 1 scale with the writer.
    expect(instances.map((instance) => instance['PromotionTier'])).toEqual(stage === 'prod' ? [0, 1] : [0]);
    for (const instance of instances) expect(instance['DBInstanceClass']).toBe('db.serverless');
    const [zone] = resources('AWS::EC2::Subnet').map(([, { Properties }]) =>
      JSON.stringify(Properties['AvailabilityZone']),
    );
    expect(zones[0]).toBe(zone);
  });

  it('can be restored as long as erasures say, and is not deleted by mistake in prod', () => {
    expect(cluster.Properties['BackupRetentionPeriod']).toBe(stage === 'prod' ? 35 : 14);
    expect(cluster.Properties['DeletionProtection']).toBe(stage === 'prod');
    expect(cluster.DeletionPolicy).toBe(stage === 'prod' ? 'RetainExceptOnCreate' : 'Delete');
  });

  it('has Database Insights, and logs into groups that forget and are there before it', () => {
    expect(cluster.Properties).toMatchObject({
      DatabaseInsightsMode: stage === 'prod' ? 'advanced' : 'standard',
      PerformanceInsightsEnabled: true,
      EnableCloudwatchLogsExports: ['postgresql', 'iam-db-auth-error'],
    });
    const name = cluster.Properties['DBClusterIdentifier'] as string;
    for (const log of cluster.Properties['EnableCloudwatchLogsExports'] as string[]) {
      const [id] = resources('AWS::Logs::LogGroup').find(
        ([, { Properties }]) => Properties['LogGroupName'] === `/aws/rds/cluster/${name}/${log}`,
      )!;
      expect(cluster.DependsOn).toContain(id);
    }
  });

  it('is what the functions are told, and what their relay knows for its own', () => {
    const variables = resources('AWS::Lambda::Function')
      .map(([, { Properties }]) => Properties['Environment']?.Variables ?? {})
      .filter((it) => 'DATABASE_HOST' in it);
    expect(variables).toHaveLength(9);
    for (const it of variables) {
      expect(it).toMatchObject({ DATABASE_PORT: '5432', DATABASE_NAME: 'sealed_outbox', DATABASE_AUTH: 'iam' });
      expect(JSON.stringify(it['DATABASE_HOST'])).toContain('EndpointAddress');
    }
    const knowing = variables.filter((it) => 'OUTBOX_CLUSTER' in it);
    expect(knowing).toHaveLength(2);
    expect(new Set(knowing.map((it) => it['POWERTOOLS_SERVICE_NAME']))).toEqual(new Set(['migrate', 'relay']));
    for (const it of knowing) expect(JSON.stringify(it['OUTBOX_CLUSTER'])).toContain('DBClusterResourceId');
  });
});

describe('what outlives its stack', () => {
  const policiesOf = (template: Template): Set<string> =>
    new Set(
      Object.values(template.toJSON()['Resources'] as Record<string, Resource>).map(
        ({ DeletionPolicy, UpdateReplacePolicy }) => `${DeletionPolicy}, when replaced ${UpdateReplacePolicy}`,
      ),
    );

  it('in prod is what holds data, with its policies, VPC and groups; a creation that fails takes all but keys back; stacks cannot be deleted before they are unprotected', () => {
    const app = emptyApp();
    const { data } = synthesise('prod', app);
    const all = Object.values((data.toJSON() as { Resources: Record<string, Resource & { Type: string }> }).Resources);
    const policyOf = Map.groupBy(
      all,
      ({ DeletionPolicy, UpdateReplacePolicy }) => `${DeletionPolicy}, when replaced ${UpdateReplacePolicy}`,
    );
    expect(
      Object.fromEntries(
        [...policyOf].map(([policy, of]) => [
          policy,
          [...new Set(of.map(({ Type }) => Type))].toSorted((a, b) => a.localeCompare(b)),
        ]),
      ),
    ).toEqual({
      // Nobody may schedule their deletion: a creation that is rolled back would stop there.
      'Retain, when replaced Retain': ['AWS::KMS::Key'],
      'RetainExceptOnCreate, when replaced Retain': [
        'AWS::EC2::SecurityGroup',
        'AWS::EC2::Subnet',
        'AWS::EC2::VPC',
        'AWS::Events::EventBus',
        'AWS::KMS::Alias',
        'AWS::Logs::LogGroup',
        'AWS::RDS::DBCluster',
        'AWS::RDS::DBClusterParameterGroup',
        'AWS::RDS::DBInstance',
        'AWS::RDS::DBSubnetGroup',
        'AWS::S3::Bucket',
        'AWS::S3::BucketPolicy',
        'AWS::SNS::Topic',
        'AWS::SNS::TopicPolicy',
        'AWS::SQS::Queue',
        'AWS::SQS::QueuePolicy',
      ],
      'Delete, when replaced Delete': [
        'AWS::EC2::EIP',
        'AWS::EC2::FlowLog',
        'AWS::EC2::InternetGateway',
        'AWS::EC2::NatGateway',
        'AWS::EC2::Route',
        'AWS::EC2::RouteTable',
        'AWS::EC2::SecurityGroupEgress',
        'AWS::EC2::SecurityGroupIngress',
        'AWS::EC2::SubnetRouteTableAssociation',
        'AWS::EC2::VPCEndpoint',
        'AWS::EC2::VPCGatewayAttachment',
        'AWS::Events::Rule',
        'AWS::IAM::Policy',
        'AWS::IAM::Role',
      ],
    });
    const stacks = app.synth().stacks;
    expect(stacks.map(({ terminationProtection }) => terminationProtection)).toEqual([true, true]);
  });

  it('in dev is nothing', () => {
    const { data } = synthesise('dev');
    expect(policiesOf(data)).toEqual(new Set(['Delete, when replaced Delete']));
  });
});
