import { spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { FUNCTIONS } from '../../infra/functions.ts';
import { bundleSize, coldFiles } from '../support/bundle-size.ts';
import { LOCAL_PASSWORD, type Resource, ROOT, variablesOf } from './synthesised.ts';

const KB = 1024;
/** What a cold start reads. More than this costs it: about 0.15 ms a kilobyte. Relay and consumers start most often. */
const BUDGET: Readonly<Record<string, number>> = {
  relay: 360 * KB,
  ledger: 410 * KB,
  notifications: 415 * KB,
  analytics: 305 * KB,
  api: 440 * KB,
  migrate: 200 * KB,
  monitor: 170 * KB,
  operator: 530 * KB,
  janitor: 315 * KB,
};

const output = mkdtempSync(join(tmpdir(), 'sealed-outbox-synth-'));
afterAll(() => rmSync(output, { recursive: true, force: true }));

/** CDK's own functions, which run triggers, name no service. */
function isOurs(resource: Resource): boolean {
  return variablesOf(resource)['POWERTOOLS_SERVICE_NAME'] !== undefined;
}

/** The files of a function's code. */
function codeOf(directory: string): string[] {
  const names = readdirSync(directory).filter((name) => name.endsWith('.mjs'));
  return names.map((name) => join(directory, name));
}

/** The app itself, as `cdk` runs it. */
function app(context: object, variables: Record<string, string> = {}) {
  const flags = (JSON.parse(readFileSync(join(ROOT, 'cdk.json'), 'utf8')) as { context: object }).context;
  return spawnSync(process.execPath, [join(ROOT, 'infra/app.ts')], {
    cwd: ROOT,
    encoding: 'utf8',
    env: {
      ...process.env,
      CDK_OUTDIR: output,
      CDK_CONTEXT_JSON: JSON.stringify({ ...flags, ...context }),
      ...variables,
    },
  });
}

describe('a synthesis of stage prod', () => {
  let assets: Record<string, string>;

  beforeAll(() => {
    const { status, stderr } = app({
      stage: 'prod',
      region: 'eu-central-1',
      mailProvider: 'https://mail.example.com',
      validate: 'cloudformation',
    });
    expect({ status, stderr }).toMatchObject({ status: 0 });
    const { Resources } = JSON.parse(readFileSync(join(output, 'Service.template.json'), 'utf8')) as {
      Resources: Record<string, Resource>;
    };
    assets = Object.fromEntries(
      Object.values(Resources)
        .filter((resource) => resource.Properties?.['Code'] !== undefined && isOurs(resource))
        .map((fn) => [
          variablesOf(fn)['POWERTOOLS_SERVICE_NAME'],
          join(output, `asset.${fn.Properties['Code'].S3Key.replace('.zip', '')}`),
        ]),
    );
  });

  it('breaks no rule of CloudFormation or AWS Solutions that is not acknowledged with a reason', () => {
    const report = JSON.parse(readFileSync(join(output, 'validation-report.json'), 'utf8')) as {
      pluginReports: { violations: { ruleName: string }[] }[];
    };
    expect(report.pluginReports.flatMap(({ violations }) => violations.map(({ ruleName }) => ruleName))).toEqual([]);
  });

  it('says in the template, beside the resource, what is acknowledged and why', () => {
    const suppressed = ['Data', 'Service'].flatMap((stack) => {
      const { Resources } = JSON.parse(readFileSync(join(output, `${stack}.template.json`), 'utf8')) as {
        Resources: Record<
          string,
          { Metadata?: { cdk_nag?: { rules_to_suppress: { id: string; reason: string }[] } }; Type: string }
        >;
      };
      return Object.values(Resources).flatMap(({ Type, Metadata }) =>
        (Metadata?.cdk_nag?.rules_to_suppress ?? []).map(({ id, reason }) => ({ Type, id, reason })),
      );
    });
    const reasons = new Map(suppressed.map(({ id, reason }) => [`${id} ${reason}`, [id, reason]]));
    const sorted = [...reasons].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, pair]) => pair);
    expect(sorted).toEqual([
      ['AwsSolutions-IAM5[Resource::*]', expect.stringMatching(/^Lambda's own calls .* is denied all of them\.$/)],
      [
        'AwsSolutions-IAM5[Resource::arn:aws:ec2:eu-central-1:<AWS::AccountId>:*/*]',
        expect.stringMatching(/^Lambda's own calls/),
      ],
      ...['GetObject', 'PutObject'].map((call) => [
        expect.stringMatching(
          /^AwsSolutions-IAM5\[Resource::sealed-outbox-prod-data:\w*ArchiveBucket\w+\/events\/\*\]$/,
        ),
        expect.stringMatching(new RegExp(`^${call} only, below one prefix of one bucket`)),
      ]),
      [
        expect.stringMatching(
          /^AwsSolutions-IAM5\[Resource::sealed-outbox-prod-data:\w*ErasuresBucket\w+\/entry\/\*\]$/,
        ),
        expect.stringMatching(/^Entries of the log of erasures/),
      ],
      ...['archive', 'log'].map((read) => [
        'AwsSolutions-S1',
        expect.stringMatching(new RegExp(`^Who reads the ${read} is in CloudTrail`)),
      ]),
      // CDK's own, for its flow log.
      ['CloudFormation-Validate::F3002', expect.stringContaining('FlowLog DestinationOptions')],
      ['CloudFormation-Validate::F3003', expect.stringContaining('FlowLog DestinationOptions')],
    ]);
    const wildcards = suppressed.filter(({ id }) => id.startsWith('AwsSolutions-IAM5')).map(({ Type }) => Type);
    expect(new Set(wildcards)).toEqual(new Set(['AWS::IAM::Role', 'AWS::IAM::Policy']));
  });

  it('knows every function that it deploys, and bundles them all at once', () => {
    expect(Object.keys(assets).toSorted()).toEqual(Object.keys(FUNCTIONS).toSorted());
    expect(Object.keys(BUDGET).toSorted()).toEqual(Object.keys(FUNCTIONS).toSorted());
  });

  it.each(Object.keys(BUDGET))('bundles %s within its budget, with source maps beside it', (name) => {
    const directory = assets[name] ?? '';
    expect(bundleSize(directory).loaded).toBeLessThanOrEqual(BUDGET[name] ?? 0);
    for (const file of codeOf(directory)) {
      expect(statSync(`${file}.map`).size).toBeGreaterThan(0);
      expect(readFileSync(file, 'utf8').includes(ROOT)).toBe(false);
      expect(readFileSync(`${file}.map`, 'utf8').includes(ROOT)).toBe(false);
    }
  });

  it.each(['ledger', 'notifications', 'api', 'janitor'])(
    'keeps the clients of KMS and S3 out of what a cold start of %s reads',
    (name) => {
      const directory = assets[name] ?? '';
      const cold = coldFiles(directory);
      const holding = (word: string): string[] =>
        codeOf(directory).filter((file) => readFileSync(file, 'utf8').includes(word));
      // What their services are called in every request.
      for (const service of ['TrentService', 'AmazonS3']) {
        expect(holding(service)).not.toEqual([]);
        expect(holding(service).filter((file) => cold.has(basename(file)))).toEqual([]);
      }
    },
  );

  it("leaves out the SDK's sources of credentials that Lambda does not have", () => {
    const code = codeOf(assets['relay'] ?? '')
      .map((file) => readFileSync(file, 'utf8'))
      .join('\n');
    const holds = (word: string): boolean => code.includes(word);
    expect(['AWS_SESSION_TOKEN', 'AssumeRoleWithWebIdentity', 'GetRoleCredentials'].filter(holds)).toEqual([
      'AWS_SESSION_TOKEN',
    ]);
  });

  it("brings the certificate authorities of RDS in the stack's region, and no other", () => {
    const layer = readdirSync(output)
      .map((name) => join(output, name, 'rds.pem'))
      .filter((file) => existsSync(file));
    expect(layer).toHaveLength(1);
    const pem = readFileSync(layer[0] ?? '', 'utf8');
    const subjects = pem
      .split(/(?<=-----END CERTIFICATE-----\n)/)
      .filter((text) => text.trim() !== '')
      .map((text) => new X509Certificate(text).subject.split('\n').find((line) => line.startsWith('CN=')));
    expect(subjects).toHaveLength(3);
    expect(new Set(subjects)).toEqual(
      new Set(['ECC384', 'RSA2048', 'RSA4096'].map((kind) => `CN=Amazon RDS eu-central-1 Root CA ${kind} G1`)),
    );
  });

  it('puts the SQL beside the migrate function', () => {
    const file = 'migrations/outbox/0001_roles.sql';
    expect(readFileSync(join(assets['migrate'] ?? '', file))).toEqual(readFileSync(join(ROOT, file)));
  });
});

describe('a synthesis of stage local', () => {
  it('tells what it leaves out', () => {
    const database = JSON.stringify({ host: '127.0.0.1', port: 5432, name: 'outbox', password: LOCAL_PASSWORD });
    const { status, stderr } = app(
      { stage: 'local', 'aws:cdk:bundling-stacks': [] },
      { SEALED_OUTBOX_DATABASE: database, SEALED_OUTBOX_MAIL_PROVIDER: 'http://127.0.0.1:1' },
    );
    expect({ status, stderr }).toMatchObject({ status: 0 });
    expect(stderr).toContain('left out locally: AWS::Logs::QueryDefinition');
  });
});

describe('a synthesis without a stage', () => {
  it('fails and says what to give', () => {
    const { status, stderr } = app({ 'aws:cdk:bundling-stacks': [] });
    expect(status).not.toBe(0);
    expect(stderr).toContain('Give one of local, dev, prod: -c stage=dev');
  });
});
