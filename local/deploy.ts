import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { ACCOUNT, cleanEnvironment, localAws, REGION, ROOT } from './environment.ts';
import { explain, Interrupted, LocalCloudProblem } from './problem.ts';
import type { Command, Supervisor } from './processes/supervisor.ts';
import type { Progress } from './report.ts';

const CDK = join(ROOT, 'node_modules', 'aws-cdk', 'bin', 'cdk');

export interface DatabaseAddress {
  readonly host: string;
  readonly port: number;
  readonly name: string;
  readonly password: string;
}

/** A custom resource whose function died would let a deployment wait for an hour. */
const LONGEST_MS = 300_000;
const LATE = Symbol('late');

/** What the stacks say about themselves: the outputs of both, by name. */
export type Outputs = Readonly<Record<string, string>>;

/** The validators that the functions' bundles hold are made from the schemas and are not in the repository. */
export async function generate(supervisor: Supervisor): Promise<void> {
  await run(supervisor, {
    name: 'generate',
    file: process.execPath,
    args: [join(ROOT, 'scripts', 'generate.ts')],
    cwd: ROOT,
    env: cleanEnvironment(process.env),
  });
}

export interface Assembly {
  readonly directory: string;
  /** What the emulator does not know and the local template does without, as `infra` says it. */
  readonly leftOut: readonly string[];
}

/** Turns `infra/app.ts` into templates and bundles, in `<directory>/cdk.out`. Needs neither database nor emulator. */
export async function synthesise(
  supervisor: Supervisor,
  database: DatabaseAddress,
  mailProviderUrl: string,
  progress: Progress,
): Promise<Assembly> {
  const directory = join(supervisor.directory, 'cdk.out');
  // Node 24 runs the app as it is; what cdk.json says (npx, for whoever calls a global cdk) costs a second more.
  const app = ['--app', `${process.execPath} infra/app.ts`];
  const said = await cdk(
    supervisor,
    'cdk synth',
    0,
    progress,
    ['synth', '--quiet', ...app, '--output', directory, '-c', 'stage=local'],
    { SEALED_OUTBOX_DATABASE: JSON.stringify(database), SEALED_OUTBOX_MAIL_PROVIDER: mailProviderUrl },
  );
  const leftOut = said.split('\n').filter((line) => line.startsWith(LEFT_OUT));
  return { directory, leftOut: leftOut.map((line) => line.slice(LEFT_OUT.length).trim()) };
}

/** How `infra/local-template.ts` begins its lines. */
const LEFT_OUT = 'left out locally:';

/** Prepares the emulator's account for deployments, as is done once for every AWS account. */
export async function bootstrap(supervisor: Supervisor, port: number, progress: Progress): Promise<void> {
  // Its own output directory and no app: it runs beside the synthesis.
  const target = `aws://${ACCOUNT}/${REGION}`;
  await cdk(supervisor, 'cdk bootstrap', port, progress, ['bootstrap', target, '--app', '']);
}

/**
 * Deploys both stacks with the real `cdk deploy`. The migrations run in it, by the deployment's trigger.
 *
 * @throws LocalCloudProblem `LOCAL_DEPLOY` with the end of what cdk said
 */
export async function deploy(
  supervisor: Supervisor,
  assembly: Assembly,
  port: number,
  progress: Progress,
): Promise<Outputs> {
  const outputsFile = join(supervisor.directory, 'outputs.json');
  const flags = [
    '--require-approval',
    'never',
    '--progress',
    'events',
    '--asset-parallelism',
    '--outputs-file',
    outputsFile,
  ];
  await cdk(supervisor, 'cdk deploy', port, progress, ['deploy', '--all', '--app', assembly.directory, ...flags]);
  const byStack = JSON.parse(await readFile(outputsFile, 'utf8')) as Record<string, Record<string, string>>;
  return Object.assign({}, ...Object.values(byStack)) as Outputs;
}

async function cdk(
  supervisor: Supervisor,
  name: string,
  port: number,
  progress: Progress,
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<string> {
  const command = {
    name,
    file: process.execPath,
    args: [CDK, ...args, '--ci', '--no-color'],
    cwd: ROOT,
    env: { ...cleanEnvironment(process.env), ...localAws(port), ...environment },
  };
  return run(supervisor, command, progress);
}

async function run(supervisor: Supervisor, command: Command, progress: Progress = () => {}): Promise<string> {
  const child = supervisor.start(command);
  let last = '';
  const timer = setInterval(() => {
    const line = child.tail(300).split('\n').at(-1)?.trim() ?? '';
    if (line !== last) progress((last = line));
  }, 1_000);
  try {
    const code = await Promise.race([child.ended, delay(LONGEST_MS, LATE, { ref: false })]);
    if (code === 0) {
      await child.stop();
      return child.tail(Infinity);
    }
    if (supervisor.stopping) throw new Interrupted();
    const said = code === LATE ? `${child.tail()}\n(gave up after ${LONGEST_MS / 1000} s)` : child.tail();
    const explained = explain(new Error(said));
    if (explained instanceof LocalCloudProblem) throw explained;
    const emulator = await complaints(join(supervisor.directory, 'logs', 'ministack.log'));
    throw new LocalCloudProblem(
      'LOCAL_DEPLOY',
      `\`${command.name}\` failed (all of it is in ${supervisor.directory}/logs). The end of its output:\n${said}${emulator}`,
    );
  } finally {
    clearInterval(timer);
  }
}

/** What the emulator complained about: a function that cannot start shows there and not in what cdk prints. */
async function complaints(log: string): Promise<string> {
  const text = await readFile(log, 'utf8').catch(() => '');
  const lines = text.split('\n').filter((line) => / (?:ERROR|WARNING) \[/.test(line));
  return lines.length === 0 ? '' : `\nThe local AWS says:\n${lines.slice(-8).join('\n')}`;
}
