import { Aspects, Stack } from 'aws-cdk-lib';
import { CfnArchive, CfnEventBus } from 'aws-cdk-lib/aws-events';
import { describe, expect, it } from 'vitest';
import { clearValuesSetting } from '../../infra/clear-values-setting.ts';
import { databaseSetting } from '../../infra/database-setting.ts';
import { givenFrom } from '../../infra/given.ts';
import { dropUnknownToEmulator } from '../../infra/local-template.ts';
import { mailProviderSetting } from '../../infra/mail-provider-setting.ts';
import { networkSetting } from '../../infra/network-setting.ts';
import { stageNamed, stages } from '../../infra/stages.ts';
import { awsDatabase, emptyApp, synthesise } from './synthesised.ts';

describe('the stage', () => {
  it.each([undefined, '', 'production', 'toString', 7])('%s is refused with the ones that there are', (given) => {
    expect(() => stageNamed(given)).toThrow(/nothing was synthesised. Give one of local, dev, prod/);
  });
});

describe('the database', () => {
  const onAws = (context: unknown) => databaseSetting('dev', { context, variable: undefined });
  const locally = (variable: string | undefined) => databaseSetting('local', { context: undefined, variable });

  it('need not be given on AWS, where the data stack makes one', () => {
    expect(onAws(undefined)).toBeUndefined();
    expect(onAws('')).toBeUndefined();
    expect(() => onAws('{')).toThrow(/"database" is no JSON object. Give an existing database as -c database=/);
  });

  it('may be given as JSON text, as -c does, or as an object, as cdk.json does', () => {
    const given = awsDatabase();
    expect(onAws(JSON.stringify(given))).toEqual(onAws(given));
    expect(onAws(given)).toMatchObject({
      host: 'db.example.com',
      port: 5432,
      auth: { kind: 'iam', resourceId: 'cluster-EXAMPLE' },
    });
  });

  it('takes no password on AWS, and does not repeat it', () => {
    const attempt = () => onAws({ ...awsDatabase(), password: 'hunter2' });
    expect(attempt).toThrow(/holds a password/);
    expect(attempt).not.toThrow(/hunter2/);
  });

  it.each(['host', 'name', 'resourceId'])('names the missing field %s', (field) => {
    const { [field]: _, ...rest } = awsDatabase();
    expect(() => onAws(rest)).toThrow(`has no "${field}"`);
  });

  it.each([0, 65_536, 1.5, '5432'])('refuses the port %s', (port) => {
    expect(() => onAws({ ...awsDatabase(), port })).toThrow(/"port" that is no number between 1 and 65535/);
  });

  it('has certificate authorities of its own, or those of RDS', () => {
    const { certificateAuthorities, ...rest } = awsDatabase();
    expect(onAws(rest)?.auth).toEqual({ kind: 'iam', resourceId: 'cluster-EXAMPLE' });
    expect(onAws({ ...rest, certificateAuthorities })?.auth).toHaveProperty('certificateAuthorities');
  });

  it('names a file of certificate authorities that is not there', () => {
    expect(() => onAws({ ...awsDatabase(), certificateAuthorities: 'nowhere.pem' })).toThrow(/does not exist/);
  });

  it('comes from a variable locally, so that its password is no context value', () => {
    expect(() => locally(undefined)).toThrow(/SEALED_OUTBOX_DATABASE is not set.*npm start/);
    expect(() => locally('{')).toThrow(/SEALED_OUTBOX_DATABASE is no JSON object/);
    expect(() => locally('[]')).toThrow(/SEALED_OUTBOX_DATABASE is no JSON object/);
    expect(locally('{"host":"127.0.0.1","port":1,"name":"x","password":"y"}')?.auth).toEqual({
      kind: 'password',
      password: 'y',
    });
  });
});

describe('who sees personal values whole', () => {
  const CLERK = 'arn:aws:iam::111122223333:role/Clerk';

  it('is nobody on AWS until principals are named, as JSON text or as a list', () => {
    expect(clearValuesSetting('prod', undefined)).toEqual({ CLEAR_VALUES_FOR: '[]' });
    for (const given of [[CLERK], JSON.stringify([CLERK])]) {
      expect(clearValuesSetting('dev', given)).toEqual({ CLEAR_VALUES_FOR: JSON.stringify([CLERK]) });
    }
  });

  it.each(['*', CLERK, ['*'], [`${CLERK}*`], {}, '["arn:aws:iam::111122223333:root"]'])(
    'is not said by %j',
    (given) => {
      expect(() => clearValuesSetting('prod', given)).toThrow(/without wildcards: .*Nothing was synthesised/);
    },
  );
});

describe('the mail provider', () => {
  const onAws = (context: unknown) => mailProviderSetting('dev', { context, variable: 'http://127.0.0.1:1' });
  const locally = (variable: string | undefined) =>
    mailProviderSetting('local', { context: 'https://a.example', variable });

  it('comes from the context on AWS and from a variable locally', () => {
    expect(onAws('https://mail.example.com/v1/')).toBe('https://mail.example.com/v1');
    expect(locally('http://127.0.0.1:4000')).toBe('http://127.0.0.1:4000');
    expect(() => onAws(undefined)).toThrow(/not set. Stage dev takes it from -c mailProvider=https/);
    expect(() => locally(undefined)).toThrow(/not set. Stage local takes it from SEALED_OUTBOX_MAIL_PROVIDER/);
  });

  it.each(['http://mail.example.com', 'http://127.0.0.1:4000', 'nowhere', 7])(
    'is not reached over an open way: %s',
    (given) => {
      expect(() => onAws(given)).toThrow(/Nothing was synthesised/);
    },
  );

  it.each(['https://key@mail.example.com', 'https://mail.example.com/?key=hunter2'])(
    'is given without a key, which would stand in the template: %s',
    (given) => {
      expect(() => onAws(given)).toThrow(/no plain URL/);
      expect(() => onAws(given)).not.toThrow(/hunter2/);
    },
  );
});

describe('the local template', () => {
  it('leaves out what the emulator does not know and tells, and keeps the rest', () => {
    const app = emptyApp();
    const stack = new Stack(app, 'Any');
    const bus = new CfnEventBus(stack, 'Bus', { name: 'bus' });
    new CfnArchive(stack, 'Archive', { sourceArn: bus.attrArn });
    const told: string[] = [];
    Aspects.of(app).add(dropUnknownToEmulator((line) => told.push(line)));
    const template = app.synth().getStackByName('Any').template as { Resources: object };
    expect(Object.keys(template.Resources)).toEqual(['Bus']);
    expect(told).toEqual(['left out locally: AWS::Events::Archive Any/Archive']);
  });

  it('misses nothing but the saved query', () => {
    const app = emptyApp();
    const told: string[] = [];
    Aspects.of(app).add(dropUnknownToEmulator((line) => told.push(line)));
    const { resources } = synthesise('local', app);
    expect(told).toEqual(['left out locally: AWS::Logs::QueryDefinition Service/Errors/Resource']);
    expect(resources('AWS::Logs::QueryDefinition')).toEqual([]);
    expect(synthesise('prod').resources('AWS::Logs::QueryDefinition')).toHaveLength(1);
  });
});

const SUBNETS = [
  { id: 'subnet-1', zone: 'eu-central-1a' },
  { id: 'subnet-2', zone: 'eu-central-1b' },
];

describe('the network', () => {
  const two = SUBNETS;

  it('is a new one unless one is named', () => {
    expect(networkSetting(undefined)).toEqual({
      zones: undefined,
      cidr: undefined,
      egress: true,
      s3PrefixList: undefined,
    });
    expect(networkSetting(JSON.stringify({ vpcId: 'vpc-1', subnets: two })).existing).toEqual({
      vpcId: 'vpc-1',
      subnets: two,
      egressSubnets: [],
      endpoints: false,
      databaseSecurityGroup: undefined,
    });
  });

  it.each([
    ['{', /no JSON object/],
    [{ vpc: 'vpc-1' }, /"vpc", which nothing reads/],
    [{ subnets: two }, /"subnets" but no "vpcId"/],
    [{ vpcId: 'vpc-1', cidr: '10.0.0.0/16', subnets: two }, /"cidr", which is for a new VPC/],
    [{ vpcId: 'vpc-1', subnets: two.slice(1) }, /in two zones/],
    [{ vpcId: 'vpc-1', subnets: ['subnet-1', 'subnet-2'] }, /no list of \{"id","zone"\}/],
    [{ natGateways: 4 }, /"natGateways" that are not 1, 2 or 3/],
    [{ natGateways: 1, egress: false }, /"natGateways" and no "egress"/],
    [{ vpcId: 'vpc-1', subnets: two, natGateways: 1 }, /"natGateways", which is for a new VPC/],
    [{ endpointSecurityGroup: 'sg-1' }, /"endpointSecurityGroup" but no "vpcId"/],
    [
      {
        vpcId: 'vpc-1',
        subnets: two.map((subnet) => ({ ...subnet, routeTable: 'rtb-1' })),
        endpoints: true,
        endpointSecurityGroup: 'sg-1',
      },
      /makes "endpoints" and names/,
    ],
    [{ zones: ['eu-central-1a'] }, /not 2 or 3 names/],
    [{ vpcId: 'vpc-1', subnets: two, endpoints: true }, /each subnet needs its "routeTable"/],
    [{ egress: 'no' }, /neither true nor false/],
    [{ vpcId: 7 }, /"vpcId" that is no text/],
  ])('says what is wrong with %j', (given, complaint) => {
    expect(() => networkSetting(given)).toThrow(complaint);
    expect(() => networkSetting(given)).toThrow(/Nothing was synthesised/);
  });
});

describe('what else an installation is given', () => {
  const given = (context: Readonly<Record<string, unknown>>) =>
    givenFrom(stages.dev, (name) => ({ mailProvider: 'https://mail.example.com', ...context })[name], {});

  it('is account and region, where they are known, and who migrates', () => {
    expect(given({})).toMatchObject({ env: {}, migrations: 'trigger', network: { egress: true } });
    expect(given({ account: '123456789012', region: 'eu-central-1', migrations: 'manual' })).toMatchObject({
      env: { account: '123456789012', region: 'eu-central-1' },
      migrations: 'manual',
    });
  });

  it('is no VPC where a database is given without one', () => {
    expect(given({ database: awsDatabase() }).network).toBeUndefined();
  });

  it('is a VPC from which the database that is given can be reached', () => {
    const network = { vpcId: 'vpc-1', subnets: SUBNETS };
    const within = (more: object) => () => given({ database: awsDatabase(), network: { ...network, ...more } });
    expect(within({ databaseSecurityGroup: 'sg-1' })().network?.existing?.databaseSecurityGroup).toBe('sg-1');
    expect(within({})).toThrow(/"databaseSecurityGroup":"sg-…".*Nothing was synthesised/);
    expect(() => given({ database: awsDatabase(), network: {} })).toThrow(/"vpcId".*Nothing was synthesised/);
    expect(() => given({ network })).not.toThrow();
  });

  it.each([
    [{ account: '12345' }, /twelve digits/],
    [{ region: 'Frankfurt' }, /name of a region/],
    [{ migrations: 'flyway' }, /trigger or manual/],
  ])('cannot be %j', (context, complaint) => {
    expect(() => given(context)).toThrow(complaint);
  });
});
