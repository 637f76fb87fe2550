import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { deploy, destroy, type World } from '../../infra/deploy/carry-out.ts';
import { DEPLOY_HELP } from '../../infra/deploy/help.ts';
import { commandLine, type Step } from '../../infra/deploy/plan.ts';
import { removalOf } from '../../infra/deploy/removal.ts';
import { givenFrom } from '../../infra/given.ts';
import { stages } from '../../infra/stages.ts';
import { ROOT, synthesise } from './synthesised.ts';

const PLACE = ['--account', '111122223333', '--region', 'eu-central-1'];
const MAIL = ['-c', 'mailProvider=https://mail.example.com'];
const DEV = ['--stage', 'dev', ...PLACE, ...MAIL];

/** A world in which nothing happens, and which remembers what should have. */
function scene(given: { answer?: string; codes?: number[]; context?: Record<string, unknown> } = {}) {
  const told = { printed: [] as string[], complaints: [] as string[], questions: [] as string[], ran: [] as string[] };
  const codes = [...(given.codes ?? [])];
  const { answer } = given;
  const world: World = {
    context: given.context ?? {},
    print: (text) => told.printed.push(text),
    complain: (text) => told.complaints.push(text),
    ask:
      answer === undefined
        ? null
        : async (question) => {
            told.questions.push(question);
            return answer;
          },
    run: async (step: Step) => {
      told.ran.push(commandLine(step));
      return codes.shift() ?? 0;
    },
  };
  return { told, world };
}

const CDK = 'node node_modules/aws-cdk/bin/cdk';
const GENERATE = 'node scripts/generate.ts';
const SYNTH =
  `${CDK} synth --quiet --output cdk.out/dev -c stage=dev -c account=111122223333 -c region=eu-central-1 ` +
  '-c mailProvider=https://mail.example.com -c validate=cloudformation';
const DIFF = `${CDK} diff --app cdk.out/dev`;
const DEPLOY = `${CDK} deploy --all --app cdk.out/dev --require-approval never`;

describe('npm run deploy', () => {
  it('builds once, shows, asks, and deploys what it has shown', async () => {
    const { told, world } = scene({ answer: 'y' });
    expect(await deploy(DEV, world)).toBe(0);
    expect(told.ran).toEqual([GENERATE, SYNTH, DIFF, DEPLOY]);
    expect(told.questions).toEqual(['Deploy this to dev in account 111122223333, eu-central-1? [y/N] ']);
  });

  it.each(['', 'n', 'dev', 'yess'])('deploys nothing when the answer is "%s"', async (answer) => {
    const { told, world } = scene({ answer });
    expect(await deploy(DEV, world)).toBe(1);
    expect(told.ran).toEqual([GENERATE, SYNTH, DIFF]);
    expect(told.complaints).toEqual(['Not deployed: nothing was changed.']);
  });

  it('asks nobody with --yes, and builds nothing where nobody can be asked', async () => {
    const pipeline = scene();
    expect(await deploy([...DEV, '--yes'], pipeline.world)).toBe(0);
    expect(pipeline.told.ran).toEqual([GENERATE, SYNTH, DIFF, DEPLOY]);
    const forgotten = scene();
    expect(await deploy(DEV, forgotten.world)).toBe(2);
    expect(forgotten.told.ran).toEqual([]);
  });

  it('ends after the differences with --diff', async () => {
    const { told, world } = scene();
    expect(await deploy([...DEV, '--diff'], world)).toBe(0);
    expect(told.ran).toEqual([GENERATE, SYNTH, DIFF]);
  });

  it('prints command lines and runs none with --dry-run, with values that a shell takes as they are', async () => {
    const { told, world } = scene();
    const network = `network={"cidr":"10.1.0.0/16"}`;
    expect(await deploy([...DEV, '-c', network, '--dry-run'], world)).toBe(0);
    expect(told.ran).toEqual([]);
    expect(told.printed).toHaveLength(4);
    expect(told.printed[1]).toContain(`-c '${network}'`);
  });

  it('hands every other word to cdk deploy, and the profile to whatever asks AWS', async () => {
    const { told, world } = scene();
    await deploy([...DEV, '--yes', '--profile', 'ops', '--no-rollback', '--outputs-file', 'out.json'], world);
    expect(told.ran.slice(2)).toEqual([
      `${DIFF} --profile ops`,
      `${CDK} deploy --all --app cdk.out/dev --profile ops --require-approval never --no-rollback --outputs-file out.json`,
    ]);
    await deploy([...DEV, '--yes', '--require-approval=broadening'], world);
    expect(told.ran.at(-1)).toBe(`${CDK} deploy --all --app cdk.out/dev --require-approval=broadening`);
  });

  it.each([
    [[0, 1], 'makes templates and bundles: ended with 1. Nothing was deployed.', 2],
    [[0, 0, 0, 1], /^deploys: ended with 1. CloudFormation rolls back/, 4],
    [[0, 0, 0, 130], /^deploys: ended with 130. Nobody waits any more, and CloudFormation goes on/, 4],
  ])('stops at the step that fails: codes %j', async (codes, complaint, ran) => {
    const { told, world } = scene({ codes });
    expect(await deploy([...DEV, '--yes'], world)).toBe(1);
    expect(told.ran).toHaveLength(ran);
    expect(told.complaints[0]).toMatch(complaint);
  });

  it('takes settings from cdk.json, which the command line precedes', async () => {
    const context = {
      stage: 'prod',
      account: 111122223333,
      region: 'eu-west-1',
      mailProvider: 'https://mail.example.com',
    };
    const { told, world } = scene({ context });
    expect(await deploy(['--region=eu-central-1', '--yes'], world)).toBe(0);
    expect(told.ran[1]).toBe(
      `${CDK} synth --quiet --output cdk.out/prod -c region=eu-central-1 -c stage=prod -c account=111122223333 -c validate=cloudformation`,
    );
  });

  it.each([
    [[...PLACE, ...MAIL], /No stage is given.*STAGE_UNKNOWN/s],
    [['--stage', 'production', ...PLACE, ...MAIL], /There is no stage "production".*local, dev, prod/s],
    [['--stage', 'local', ...PLACE, ...MAIL], /what npm start deploys/],
    [['--stage', 'dev', ...MAIL, '--region', 'eu-central-1'], /The account is not given.*cdk.json/s],
    [['--stage', 'dev', ...MAIL, '--account', '111122223333'], /The region is not given/],
    [['--stage', 'dev', ...PLACE], /mail provider is not set.*-c mailProvider=/s],
    [[...DEV, '-c', 'migrations=never'], /"migrations" cannot be used.*trigger or manual/s],
    [[...DEV, '-c', 'database={'], /"database" is no JSON object/],
    [[...DEV, '-c', 'network={"vpcld":"vpc-1"}'], /has "vpcld", which nothing reads/],
    [[...DEV, '-c', 'stage=prod'], /"stage" is given twice/],
    [[...DEV, '--account'], /--account needs a value/],
    [[...DEV, '-c', 'account'], /-c takes name=value/],
    [[...DEV, '--app', 'elsewhere'], /--app is set by this command/],
  ])('refuses %j before anything is built', async (words, complaint) => {
    const { told, world } = scene({ answer: 'y' });
    expect(await deploy(words, world)).toBe(2);
    expect(told.complaints.join('\n')).toMatch(complaint);
    expect(told.ran).toEqual([]);
  });

  it('tells how with --help, whatever else is wrong', async () => {
    const { told, world } = scene();
    expect(await deploy(['--help', '--frobnicate'], world)).toBe(0);
    expect(told.printed[0]).toContain('npm run deploy -- --stage dev');
  });
});

describe('the settings', () => {
  const asked = new Set<string>(['stage']);
  givenFrom(
    stages.prod,
    (name) => {
      asked.add(name);
      return name === 'mailProvider' ? 'https://mail.example.com' : undefined;
    },
    {},
  );

  it.each([...asked])('%s is in the guide and in --help', (name) => {
    const guide = readFileSync(join(ROOT, 'docs/deploy.md'), 'utf8');
    const table = guide.split('## Settings')[1]?.split('\n## ')[0] ?? '';
    expect(table).toMatch(new RegExp(`^\\|[^|]*\`${name}\``, 'm'));
    expect(DEPLOY_HELP).toMatch(new RegExp(`\\b${name}\\b`));
  });
});

describe('npm run destroy', () => {
  const words = ['--stage', 'dev', ...PLACE];

  it('says what goes and what stays, and wants the name of the stage', async () => {
    const { told, world } = scene({ answer: 'dev' });
    expect(await destroy(words, world)).toBe(0);
    expect(told.printed.join('\n')).toMatch(/Before:.*Goes:.*Stays:/s);
    expect(told.ran).toEqual([
      `${CDK} destroy --all --force -c stage=dev -c account=111122223333 -c region=eu-central-1 -c mailProvider=https://none.invalid`,
    ]);
  });

  it.each([undefined, '', 'yes', 'prod'])('deletes nothing when the answer is %s', async (answer) => {
    const { told, world } = scene(answer === undefined ? {} : { answer });
    expect(await destroy(words, world)).toBe(1);
    expect(told.ran).toEqual([]);
  });

  it('never deletes a stage that keeps its data, not with --yes either, and says what to do by hand', async () => {
    const { told, world } = scene({ answer: 'prod' });
    expect(await destroy(['--stage', 'prod', ...PLACE, '--yes'], world)).toBe(1);
    expect(told.ran).toEqual([]);
    expect(told.printed.join('\n')).toContain('update-termination-protection');
  });
});

describe('what the list of a removal says', () => {
  const policies = (template: object): string[] =>
    Object.values((template as { Resources: Record<string, { Type: string; DeletionPolicy?: string }> }).Resources).map(
      ({ Type, DeletionPolicy }) => `${Type} ${DeletionPolicy ?? 'none'}`,
    );

  it('is so in dev: nothing is retained, and the log of erasures is the only bucket', () => {
    const { data, service, resources } = synthesise('dev');
    const all = [...policies(data.toJSON()), ...policies(service.toJSON())];
    expect(all.filter((it) => /Retain|Snapshot/.test(it))).toEqual([]);
    expect(resources('AWS::S3::Bucket').map(([id]) => id)).toEqual([expect.stringMatching(/^KeysErasures|^Erasures/)]);
    const windows = resources('AWS::KMS::Key').map(([, { Properties }]) => Properties['PendingWindowInDays'] ?? 30);
    expect(windows.toSorted((a, b) => a - b)).toEqual([7, 7]);
    expect(removalOf({ stage: 'dev' }).first).toHaveLength(1);
  });

  it('is so in prod: what holds data is retained, gateways and rules go, the database cannot be deleted by mistake', () => {
    const { data, resources } = synthesise('prod');
    const all = policies(data.toJSON());
    const holdsData = /::(?:RDS|SQS|S3|SNS|KMS|Logs)::|::EventBus |EC2::(?:VPC|Subnet|SecurityGroup) /;
    expect(all.filter((it) => holdsData.test(it) && !/ Retain(?:ExceptOnCreate)?$/.test(it))).toEqual([]);
    expect(all).toContain('AWS::EC2::NatGateway Delete');
    expect(removalOf({ stage: 'prod' }).goes.join()).toContain('NAT gateways');
    const [[, cluster] = []] = resources('AWS::RDS::DBCluster');
    expect(cluster?.Properties['DeletionProtection']).toBe(true);
    expect(removalOf({ stage: 'prod' }).byCommand).toBe(false);
  });
});

describe('the example of a pipeline', () => {
  const read = (name: string): string => readFileSync(join(ROOT, 'examples/pipeline', name), 'utf8');
  const workflow = read('deploy.yml');

  it('pins every action to a commit and names its version', () => {
    const uses = workflow.match(/uses: .*/g) ?? [];
    expect(uses.length).toBeGreaterThan(0);
    for (const line of uses) expect(line).toMatch(/^uses: [\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
  });

  it('gives a token to jobs of an environment only, and holds no secret', () => {
    const jobs = workflow.split(/^  (?=\w+:$)/m).filter((job) => job.includes('runs-on'));
    for (const job of jobs) expect(job.includes('id-token: write')).toBe(job.includes('environment:'));
    expect(workflow).not.toMatch(/secrets\./);
  });

  it('trusts one environment of one repository, and lets it assume the roles of the bootstrap and nothing else', () => {
    const trust = JSON.parse(read('trust-policy.json')) as { Statement: { Condition: Record<string, object> }[] };
    expect(trust.Statement.map(({ Condition }) => Object.keys(Condition))).toEqual([['StringEquals']]);
    expect(JSON.stringify(trust)).not.toContain('*');
    const permissions = JSON.parse(read('permissions.json')) as { Statement: { Action: string; Resource: string[] }[] };
    expect(permissions.Statement.map(({ Action }) => Action)).toEqual(['sts:AssumeRole']);
    for (const arn of permissions.Statement[0]?.Resource ?? [])
      expect(arn).toMatch(/:role\/cdk-[a-z0-9]+-(deploy|file-publishing|lookup)-role-[^*]+$/);
  });
});
