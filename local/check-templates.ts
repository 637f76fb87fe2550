/**
 * Synthesises the stages of AWS and holds their templates against cdk-nag, CloudFormation's own rules and cfn-lint. Prints what is found and
 * not acknowledged, and ends with 1. Needs no account, and a package index the first time only.
 */
import { existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { CFN_LINT } from './emulator/packages.ts';
import { virtualEnvironment } from './emulator/virtual-environment.ts';
import { cleanEnvironment, REGION, ROOT } from './environment.ts';
import { openSupervisor, type Supervisor } from './processes/supervisor.ts';

const STAGES = ['dev', 'prod'] as const;
const STACKS = ['Data', 'Service'] as const;
const DIRECTORY = join(ROOT, '.cache', 'templates');

/**
 * W3005: a dependency that a reference implies already. CDK writes one for each role, on purpose: its policy has to be there as well.
 */
const IGNORED = ['W3005'];

interface Report {
  readonly pluginReports: readonly {
    readonly violations: readonly {
      readonly ruleName: string;
      readonly description: string;
      readonly violatingConstructs?: readonly { readonly constructPath?: string }[];
    }[];
  }[];
}

/** What the synthesis itself finds. */
async function synthesised(supervisor: Supervisor, stage: string): Promise<readonly string[]> {
  const directory = join(DIRECTORY, stage);
  rmSync(directory, { recursive: true, force: true });
  mkdirSync(directory, { recursive: true });
  const flags = (JSON.parse(readFileSync(join(ROOT, 'cdk.json'), 'utf8')) as { context: object }).context;
  const given = { stage, region: REGION, mailProvider: 'https://mail.example.com', validate: 'cloudformation' };
  const app = supervisor.start({
    name: `synth-${stage}`,
    file: process.execPath,
    args: [join(ROOT, 'infra', 'app.ts')],
    cwd: ROOT,
    env: {
      ...cleanEnvironment(process.env),
      CDK_OUTDIR: directory,
      // Without bundles, on which no template depends.
      CDK_CONTEXT_JSON: JSON.stringify({ ...flags, ...given, 'aws:cdk:bundling-stacks': [] }),
    },
  });
  const code = await app.ended;
  const file = join(directory, 'validation-report.json');
  if (!existsSync(file)) return [`stage ${stage}: the synthesis ended with ${code}\n${app.tail()}`];
  const { pluginReports } = JSON.parse(readFileSync(file, 'utf8')) as Report;
  const found = pluginReports.flatMap(({ violations }) =>
    violations.map(({ ruleName, description, violatingConstructs = [] }) => {
      const where = violatingConstructs.map(({ constructPath }) => constructPath).join(', ');
      return `stage ${stage}: ${ruleName} ${description} (${where})`;
    }),
  );
  return found.length > 0 || code === 0 ? found : [`stage ${stage}: the synthesis ended with ${code}\n${app.tail()}`];
}

async function linted(supervisor: Supervisor, python: string): Promise<readonly string[]> {
  const templates = STAGES.flatMap((stage) => STACKS.map((stack) => join(DIRECTORY, stage, `${stack}.template.json`)));
  const lint = supervisor.start({
    name: 'cfn-lint',
    file: join(dirname(python), 'cfn-lint'),
    args: [
      '--regions',
      REGION,
      '--ignore-checks',
      ...IGNORED,
      '--format',
      'parseable',
      '--non-zero-exit-code',
      'informational',
      '--template',
      ...templates,
    ],
    env: cleanEnvironment(process.env),
  });
  const code = await lint.ended;
  return code === 0 ? [] : [`cfn-lint ended with ${code}\n${lint.tail(20_000)}`];
}

async function main(): Promise<number> {
  const supervisor = await openSupervisor(join(ROOT, '.local', 'templates'), {
    step: async (_name, work) => work(() => {}),
    line: (text) => console.log(text),
    detail: () => {},
  });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      supervisor.kill();
      process.exit(1);
    });
  }
  try {
    const [python, ...stages] = await Promise.all([
      // Waits for the network, where the syntheses work.
      virtualEnvironment(join(ROOT, '.local'), CFN_LINT, supervisor, () => {}),
      ...STAGES.map((stage) => synthesised(supervisor, stage)),
    ]);
    const found = stages.flat();
    if (found.length === 0) found.push(...(await linted(supervisor, python)));
    for (const line of found) console.log(line);
    return found.length === 0 ? 0 : 1;
  } finally {
    await supervisor.stop();
  }
}

process.exitCode = await main();
