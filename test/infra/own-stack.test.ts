import { Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import { SecurityGroup, Subnet, Vpc } from 'aws-cdk-lib/aws-ec2';
import { AccountRootPrincipal, Role } from 'aws-cdk-lib/aws-iam';
import { Code, Function as LambdaFunction, Runtime } from 'aws-cdk-lib/aws-lambda';
import { DatabaseInstance, DatabaseInstanceEngine, PostgresEngineVersion } from 'aws-cdk-lib/aws-rds';
import { describe, expect, it } from 'vitest';
import {
  connectionTo,
  type DatabaseConnection,
  EventApi,
  type EventApiProps,
  type ExistingNetwork,
  OutboxCluster,
  type OutboxClusterProps,
  OutboxDatabase,
  OutboxNetwork,
  type OutboxNetworkProps,
} from '../../infra/index.ts';
import { regionalAuthorities } from '../../infra/constructs/certificate-authorities.ts';
import { emptyApp, type Resource, synthesise } from './synthesised.ts';

const env = { account: '123456789012', region: 'eu-central-1' };
const ZONES = ['eu-central-1a', 'eu-central-1b'];

function stackOf(): Stack {
  return new (class extends Stack {
    override get availabilityZones(): string[] {
      return [...ZONES];
    }
  })(emptyApp(), 'Mine', { env });
}

function existing(stack: Stack, more: Partial<ExistingNetwork> = {}): ExistingNetwork {
  const subnet = (subnetId: string, zone: number) =>
    Subnet.fromSubnetAttributes(stack, subnetId, {
      subnetId,
      availabilityZone: ZONES[zone],
      routeTableId: `rtb-${zone}`,
    });
  return {
    vpc: Vpc.fromVpcAttributes(stack, 'Theirs', { vpcId: 'vpc-1', availabilityZones: ZONES }),
    subnets: [subnet('subnet-1', 0), subnet('subnet-2', 1)],
    ...more,
  };
}

describe('a network of your own', () => {
  const network = (props: (stack: Stack) => OutboxNetworkProps) => {
    const stack = stackOf();
    new OutboxNetwork(stack, 'Network', props(stack));
    return Template.fromStack(stack);
  };

  it('gets security groups and nothing else, where it is there already', () => {
    const template = network((stack) => ({ existing: existing(stack) }));
    const types = Object.values(template.toJSON()['Resources'] as Record<string, { Type: string }>).map(
      (it) => it.Type,
    );
    expect(new Set(types)).toEqual(new Set(['AWS::EC2::SecurityGroup']));
  });

  it('gets endpoints where it has none yet, and its database lets functions in', () => {
    const template = network((stack) => ({
      existing: existing(stack, {
        endpoints: true,
        databaseGroup: SecurityGroup.fromSecurityGroupId(stack, 'Database', 'sg-1'),
      }),
    }));
    template.resourceCountIs('AWS::EC2::VPCEndpoint', 4);
    template.hasResourceProperties('AWS::EC2::SecurityGroupIngress', { GroupId: 'sg-1', FromPort: 5432, ToPort: 5432 });
  });

  it('has no way out unless it is asked for, and one gateway then', () => {
    const none = network(() => ({}));
    for (const type of ['NatGateway', 'InternetGateway', 'EIP']) none.resourceCountIs(`AWS::EC2::${type}`, 0);
    const subnets = none.findResources('AWS::EC2::Subnet');
    expect(Object.keys(subnets)).toHaveLength(2);
    network(() => ({ egress: true })).resourceCountIs('AWS::EC2::NatGateway', 1);
  });

  it('has as many gateways as are asked for, each in a zone of its own, and no more than zones', () => {
    const gateways = network(() => ({ egress: true, natGateways: 2 })).findResources('AWS::EC2::NatGateway');
    const subnets = Object.values(gateways).map(({ Properties }) => JSON.stringify(Properties['SubnetId']));
    expect(new Set(subnets).size).toBe(2);
    expect(() => network(() => ({ egress: true, natGateways: 3 }))).toThrow('natGateways is 3, and there are 2 zones');
  });

  it.each([
    ['to any address where it has its own way to AWS', {}, ['0.0.0.0/0']],
    ['to its endpoints and nothing else where they are named', { endpoints: 'sg-2' }, []],
  ])('lets functions of an existing VPC send %s', (_about, { endpoints }: { endpoints?: string }, expected) => {
    const template = network((stack) => ({
      s3PrefixList: 'pl-1',
      existing: existing(stack, {
        ...(endpoints !== undefined && {
          endpointGroup: SecurityGroup.fromSecurityGroupId(stack, 'Endpoints', endpoints),
        }),
      }),
    }));
    const groups = Object.values(template.findResources('AWS::EC2::SecurityGroup'));
    const addresses = groups
      .flatMap(({ Properties }) => Properties['SecurityGroupEgress'] as { CidrIp?: string; IpProtocol: string }[])
      .flatMap(({ CidrIp, IpProtocol }) => (IpProtocol === 'tcp' && CidrIp !== undefined ? [CidrIp] : []));
    expect(addresses).toEqual(expected);
    const rule = { FromPort: 443, ToPort: 443 };
    template.resourcePropertiesCountIs(
      'AWS::EC2::SecurityGroupEgress',
      { ...rule, DestinationSecurityGroupId: 'sg-2' },
      expected.length === 0 ? 1 : 0,
    );
    template.resourcePropertiesCountIs(
      'AWS::EC2::SecurityGroupIngress',
      { ...rule, GroupId: 'sg-2' },
      expected.length === 0 ? 1 : 0,
    );
  });

  it('lets functions that use S3 send to its addresses alone, where somebody says which they are', () => {
    const groups = network(() => ({ s3PrefixList: 'pl-1' })).findResources('AWS::EC2::SecurityGroup', {
      Properties: { GroupDescription: 'Functions that also use S3' },
    });
    expect(Object.values(groups).map(({ Properties }) => Properties['SecurityGroupEgress'])).toEqual([
      [
        {
          IpProtocol: 'tcp',
          FromPort: 443,
          ToPort: 443,
          DestinationPrefixListId: 'pl-1',
          Description: 'S3 through its gateway',
        },
      ],
    ]);
  });

  it('keeps the addresses of its subnets when a third zone or a way out is added', () => {
    const blocks = (template: Template) =>
      Object.values(template.findResources('AWS::EC2::Subnet'))
        .map(({ Properties }) => Properties['CidrBlock'] as string)
        .toSorted();
    const isolated = blocks(network(() => ({})));
    expect(blocks(network(() => ({ egress: true })))).toEqual(expect.arrayContaining(isolated));
  });
});

describe('a cluster of your own', () => {
  const cluster = (more: Partial<OutboxClusterProps>, zones = 2) => {
    const stack = stackOf();
    const { vpc, subnets } = existing(stack);
    return new OutboxCluster(stack, 'Cluster', {
      vpc,
      subnets: subnets.slice(0, zones),
      clients: [],
      clusterIdentifier: 'mine',
      ...more,
    });
  };

  it.each([
    ['a backup that is too short', { backupRetention: Duration.days(7) }, /backupRetention is 7 days. Give 14 to 35/],
    ['a backup longer than RDS keeps', { backupRetention: Duration.days(36) }, /36 days/],
    ['one that sleeps', { capacity: { min: 0, max: 4 } }, /capacity is 0 to 4. Give 0.5 or more/],
    ['a maximum below its minimum', { capacity: { min: 4, max: 2 } }, /capacity is 4 to 2/],
  ])('is refused as %s', (_about, props, complaint) => {
    expect(() => cluster(props)).toThrow(complaint);
  });

  it('has a key that can be neither disabled nor deleted but by the principal that is named, unless the cluster itself may be deleted', () => {
    const breakGlassArn = 'arn:aws:iam::123456789012:role/break-glass';
    const denied = (props: Partial<OutboxClusterProps>) => {
      const [{ Properties }] = Object.values(
        Template.fromStack(Stack.of(cluster(props))).findResources('AWS::KMS::Key'),
      ) as [Resource];
      return (Properties['KeyPolicy'].Statement as { Effect: string; Condition?: unknown }[])
        .filter(({ Effect }) => Effect === 'Deny')
        .map(({ Condition }) => Condition);
    };
    expect(denied({})).toEqual([undefined]);
    expect(denied({ breakGlassArn })).toEqual([{ ArnNotEquals: { 'aws:PrincipalArn': breakGlassArn } }]);
    expect(denied({ deletionProtection: false })).toEqual([]);
    expect(() => cluster({ breakGlassArn: 'arn:aws:sts::123456789012:assumed-role/a/b' })).toThrow(/not of a session/);
  });

  it('is refused in one zone', () => {
    expect(() => cluster({}, 1)).toThrow(/one zone. Aurora needs two/);
  });

  it('says how many connections functions may share: nine tenths of what its maximum allows', () => {
    expect(cluster({ capacity: { min: 0.5, max: 2 } }).maxConnections).toBe(340);
    // Below one unit at rest Aurora allows 2,000 at most.
    expect(cluster({ capacity: { min: 0.5, max: 64 } }).maxConnections).toBe(1800);
    expect(cluster({ capacity: { min: 1, max: 64 } }).maxConnections).toBe(4500);
  });
});

describe('a database that is there already', () => {
  const auth = { kind: 'iam', resourceId: 'cluster-EXAMPLE' } as const;
  const connection: DatabaseConnection = { host: 'db.example.com', port: 5432, name: 'shop', auth };
  const database = (stack: Stack, migrations: 'trigger' | 'manual') =>
    new OutboxDatabase(stack, 'Database', {
      connection,
      migrateEntry: 'functions/migrate/index.ts',
      migrator: 'sealed_migrator',
      migrations,
    });
  const api = (
    stack: Stack,
    access: 'iam' | 'open',
    of: DatabaseConnection = connection,
    limits: NonNullable<EventApiProps['limits']> = {},
  ) =>
    new EventApi(stack, 'Api', {
      entry: 'functions/sample/api/index.ts',
      routes: ['POST /things', 'DELETE /things/{id}'],
      limits,
      database: new OutboxDatabase(stack, 'Of', {
        connection: of,
        migrateEntry: 'functions/migrate/index.ts',
        migrator: 'sealed_migrator',
      }),
      login: { user: 'api', roles: [] },
      access,
    });

  it('is not touched by anything deployed where migrations are manual; the stack says which logins are wanted', () => {
    const stack = stackOf();
    database(stack, 'manual');
    const template = Template.fromStack(stack);
    template.resourceCountIs('AWS::Lambda::Function', 0);
    template.resourceCountIs('Custom::Trigger', 0);
    const service = synthesise('prod', emptyApp(), { migrations: 'manual' });
    expect(service.resources('Custom::Trigger')).toEqual([]);
    const outputs = Object.entries(service.service.toJSON()['Outputs'] as Record<string, { Value: string }>);
    const [, logins] = outputs.find(([id]) => id.startsWith('DatabaseLogins')) ?? [];
    expect(JSON.parse(logins?.Value ?? '').map(({ user }: { user: string }) => user)).toContain('sealed_relay');
  });

  it('is not behind an API that is open to everybody: that is for a database on this machine', () => {
    expect(() => api(stackOf(), 'open')).toThrow(/Mine\/Api: access is open.*Give access: 'iam'/);
    expect(() => api(stackOf(), 'iam')).not.toThrow();
    const here: DatabaseConnection = { ...connection, host: '127.0.0.1', auth: { kind: 'password', password: 'p' } };
    expect(() => api(stackOf(), 'open', here)).not.toThrow();
  });

  it('is behind an API that is throttled and logs each request, without what callers put into its path', () => {
    const stack = stackOf();
    api(stack, 'iam');
    const [stage] = Object.values(Template.fromStack(stack).findResources('AWS::ApiGatewayV2::Stage'));
    expect(stage?.['Properties']).toMatchObject({
      DefaultRouteSettings: { ThrottlingBurstLimit: 1000, ThrottlingRateLimit: 500 },
      AccessLogSettings: { DestinationArn: expect.anything() },
    });
    const format = JSON.parse(stage?.['Properties'].AccessLogSettings.Format as string) as Record<string, string>;
    expect(Object.values(format)).toContain('$context.status');
    expect(JSON.stringify(format)).not.toMatch(/path|identity|authorizer/i);
  });

  it('lets somebody call the routes that are named, and limits those that are named', () => {
    const stack = stackOf();
    const made = api(stack, 'iam', undefined, { 'DELETE /things/{id}': { perSecond: 1, burst: 5 } });
    const clerk = new Role(stack, 'Clerk', { assumedBy: new AccountRootPrincipal() });
    made.grantCall(clerk, 'DELETE /things/{id}');
    expect(() => made.grantCall(clerk, 'GET /nothing')).toThrow(/there is no route "GET \/nothing"/);
    const template = Template.fromStack(stack);
    template.hasResourceProperties('AWS::ApiGatewayV2::Stage', {
      RouteSettings: { 'DELETE /things/{id}': { ThrottlingRateLimit: 1, ThrottlingBurstLimit: 5 } },
    });
    const policies = Object.values(template.findResources('AWS::IAM::Policy')).filter(({ Properties }) =>
      JSON.stringify(Properties).includes('execute-api:Invoke'),
    );
    const statements = policies.flatMap(({ Properties }) => Properties.PolicyDocument.Statement as object[]);
    expect(statements).toHaveLength(1);
    expect(JSON.stringify(statements)).toMatch(/\/\*\/DELETE\/things\/\*"/);
    expect(() => api(stackOf(), 'iam', undefined, { 'GET /nothing': { perSecond: 1, burst: 1 } })).toThrow(/no route/);
  });

  it('may be on another VPC, which is given, or reached without one', () => {
    const given = { host: 'db.example.com', name: 'shop', resourceId: 'cluster-EXAMPLE' };
    const without = synthesise('dev', emptyApp(), { database: given });
    expect(without.resources('AWS::EC2::VPC')).toEqual([]);
    expect(without.resources('AWS::RDS::DBCluster')).toEqual([]);
    expect(without.functionNamed('relay')[1].Properties).not.toHaveProperty('VpcConfig');
    const network = {
      vpcId: 'vpc-1',
      subnets: ZONES.map((zone, index) => ({ id: `subnet-${index}`, zone })),
      databaseSecurityGroup: 'sg-1',
    };
    const within = synthesise('dev', emptyApp(), { database: given, network });
    expect(within.resources('AWS::EC2::VPC')).toEqual([]);
    expect(within.resources('AWS::RDS::DBCluster')).toEqual([]);
    expect(within.functionNamed('relay')[1].Properties['VpcConfig'].SubnetIds).toEqual(['subnet-0', 'subnet-1']);
    const elsewhere = synthesise('dev', emptyApp(), { database: { ...given, port: 6543 }, network });
    const rules = elsewhere.resources('AWS::EC2::SecurityGroupIngress').map(([, { Properties }]) => Properties);
    expect(rules.filter(({ GroupId }) => GroupId === 'sg-1')).toEqual([
      expect.objectContaining({ FromPort: 6543, ToPort: 6543 }),
    ]);
    const out = elsewhere.resources('AWS::EC2::SecurityGroupEgress').map(([, { Properties }]) => Properties);
    expect(out.filter((it) => it['DestinationSecurityGroupId'] === 'sg-1')).toEqual([
      expect.objectContaining({ FromPort: 6543, ToPort: 6543 }),
    ]);
    const routed = network.subnets.map((subnet, index) => ({ ...subnet, routeTable: `rtb-${index}` }));
    const own = synthesise('dev', emptyApp(), { network: { vpcId: 'vpc-1', subnets: routed, endpoints: true } });
    expect(own.resources('AWS::RDS::DBCluster')).toHaveLength(1);
    expect(own.resources('AWS::EC2::VPCEndpoint')).toHaveLength(4);
  });
});

describe('a database in the same stack as the outbox', () => {
  /** What the migration waits for, by type. */
  const awaited = (template: Template): string[] => {
    const { Resources } = template.toJSON() as { Resources: Record<string, Resource & { Type: string }> };
    const trigger = Object.values(Resources).find(({ Type }) => Type === 'Custom::Trigger');
    return (trigger?.DependsOn ?? []).map((id) => Resources[id]?.Type ?? id);
  };
  const RULES = ['AWS::EC2::SecurityGroupEgress', 'AWS::EC2::SecurityGroupIngress'];
  const migrates = { migrateEntry: 'functions/migrate/index.ts', migrator: 'sealed_migrator' };

  it('is migrated when its instance answers and lets the migration in', () => {
    const stack = stackOf();
    const { vpc, subnets, functions } = new OutboxNetwork(stack, 'Network');
    const clients = [...functions.securityGroups];
    const { connection } = new OutboxCluster(stack, 'Cluster', { vpc, subnets, clients, clusterIdentifier: 'mine' });
    new OutboxDatabase(stack, 'Database', { connection, network: functions, ...migrates });
    expect(awaited(Template.fromStack(stack))).toEqual(
      expect.arrayContaining(['AWS::RDS::DBCluster', 'AWS::RDS::DBInstance', ...RULES]),
    );
  });

  it('may be yours, with rules that come later, of which one lets in a function that waits for the migration', () => {
    const stack = stackOf();
    const vpc = new Vpc(stack, 'Vpc', { maxAzs: 2, natGateways: 0 });
    const vpcSubnets = { subnets: vpc.isolatedSubnets };
    const instance = new DatabaseInstance(stack, 'Theirs', {
      vpc,
      vpcSubnets,
      engine: DatabaseInstanceEngine.postgres({ version: PostgresEngineVersion.VER_17 }),
      iamAuthentication: true,
    });
    const group = new SecurityGroup(stack, 'Functions', { vpc });
    const database = new OutboxDatabase(stack, 'Database', {
      connection: connectionTo(instance, { databaseName: 'shop' }),
      network: { vpc, ...vpcSubnets, securityGroups: [group] },
      ...migrates,
    });
    const fn = new LambdaFunction(stack, 'Checkout', {
      code: Code.fromInline('exports.handler = () => {}'),
      handler: 'index.handler',
      runtime: Runtime.NODEJS_24_X,
      vpc,
      vpcSubnets,
    });
    database.connect(fn, { user: 'shop_checkout', roles: [] });
    instance.connections.allowDefaultPortFrom(fn);
    instance.connections.allowDefaultPortFrom(group);
    // Template.fromStack refuses circles.
    const found = awaited(Template.fromStack(stack));
    expect(found).toContain('AWS::RDS::DBInstance');
    expect(found.filter((type) => RULES.includes(type))).toEqual(['AWS::EC2::SecurityGroupIngress']);
  });
});

describe('the certificate authorities of RDS', () => {
  it('are all that there are where the region is known in the account only', () => {
    const count = (pem: string) => pem.match(/BEGIN CERTIFICATE/g)?.length;
    expect(count(regionalAuthorities('eu-central-1'))).toBe(3);
    expect(count(regionalAuthorities(new Stack(emptyApp(), 'Anywhere').region))).toBeGreaterThan(70);
  });

  it('can be given for a region that is too new', () => {
    expect(() => regionalAuthorities('xx-north-9')).toThrow(
      /not known. Nothing was synthesised. Download https:\/\/truststore.pki.rds.amazonaws.com\/xx-north-9\//,
    );
  });
});
