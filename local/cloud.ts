import { chmod, mkdtemp, mkdir, statfs } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type InvocationType, InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { watchMetrics } from './cloudwatch/watch.ts';
import type { AlarmChange } from './cloudwatch/alarms.ts';
import {
  bootstrap,
  type Assembly,
  type DatabaseAddress,
  deploy,
  generate,
  type Outputs,
  synthesise,
} from './deploy.ts';
import { portTaken, startMiniStack } from './emulator/ministack.ts';
import { MINISTACK } from './emulator/packages.ts';
import { virtualEnvironment } from './emulator/virtual-environment.ts';
import { REGION, ROOT } from './environment.ts';
import { startMailProvider } from './mail-provider/server.ts';
import { createDatabase, freePort, type LocalPostgres, MIGRATOR, startPostgres } from './postgres.ts';
import { explain, Interrupted } from './problem.ts';
import type { Supervisor } from './processes/supervisor.ts';
import { startPulse } from './pulse.ts';
import type { Report } from './report.ts';

/** The same product as on AWS, running on this machine. */
export interface LocalCloud {
  readonly outputs: Outputs;
  readonly apiUrl: string;
  readonly endpoint: string;
  readonly database: DatabaseAddress;
  /** Of the provider that the sample's mails go through. */
  readonly mailProviderUrl: string;
  /** For an AWS SDK client of the local cloud. */
  readonly client: ClientSettings;
}

export interface ClientSettings {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

export interface LocalCloudOptions {
  readonly supervisor: Supervisor;
  readonly report: Report;
  /** Port of the local AWS. Default: a free one. */
  readonly port?: number | undefined;
  /** How many times faster than the deployed alarms say they are evaluated, and the monitor measures. Default: 1. */
  readonly alarmSpeed?: number;
  readonly onAlarm: (change: AlarmChange) => void;
}

const DATABASE = 'sealed_outbox';

/** A megabyte more than everything here needs. */
const NEEDED_BYTES = 600_000_000;

/** The rhythm of monitor and janitor: the deployed local alarms measure in periods of 10 s, and a schedule can do no better than 60. */
const MEASURE_EVERY_MS = 5_000;

/** Of the server's settings. It freezes rows by itself, well before the local alarm on the age of transaction ids. */
const POSTGRES = { track_commit_timestamp: 'on', autovacuum_freeze_max_age: 100_000 };

/**
 * Starts PostgreSQL and the emulator, deploys the application and sets it going. What is started belongs to `supervisor`,
 * whose `stop` ends it, after a failure too.
 *
 * @throws LocalCloudProblem with a sentence that says what to do
 */
export async function startLocalCloud(options: LocalCloudOptions): Promise<LocalCloud> {
  try {
    return await start(options);
  } catch (error) {
    throw explain(error);
  }
}

async function start({
  supervisor,
  report,
  port: wanted,
  alarmSpeed = 1,
  onAlarm,
}: LocalCloudOptions): Promise<LocalCloud> {
  await requireSpace(supervisor.directory);
  await requireSpace(tmpdir());
  const port = wanted === undefined ? await freePort() : await requirePort(wanted);
  const temporary = await temporaryDirectory(supervisor);
  const endpoint = `http://127.0.0.1:${port}`;

  // Two lines side by side: what needs the network the first time and the emulator, and what needs the processor.
  const emulator = async (): Promise<void> => {
    const python = await report.step('Python environment of the local AWS', (progress) =>
      virtualEnvironment(join(ROOT, '.local'), MINISTACK, supervisor, progress),
    );
    await report.step('Local AWS (MiniStack)', () => startMiniStack(supervisor, python, port, temporary));
    await report.step('cdk bootstrap', (progress) => bootstrap(supervisor, port, progress));
  };
  const mail = await startMailProvider();
  supervisor.beforeStop(() => mail.close());
  const application = async (): Promise<{ database: DatabaseAddress; assembly: Assembly }> => {
    const server = await report.step('PostgreSQL', () => startDatabase(supervisor, temporary));
    const database = { host: '127.0.0.1', port: server.port, name: DATABASE, password: server.password };
    await report.step('Generated code', () => generate(supervisor));
    const assembly = await report.step('cdk synth', (progress) => synthesise(supervisor, database, mail.url, progress));
    for (const resource of assembly.leftOut)
      report.line(`    left out, since the local AWS does not know it: ${resource}`);
    return { database, assembly };
  };
  const [{ database, assembly }] = await Promise.all([application(), emulator()]);
  const outputs = await report.step('cdk deploy, with the migrations', (progress) =>
    deploy(supervisor, assembly, port, progress),
  );

  const client = { endpoint, region: REGION, credentials: { accessKeyId: 'test', secretAccessKey: 'test' } };
  await report.step('Relay, monitor and janitor', () => setGoing(supervisor, client, outputs, alarmSpeed));
  const watch = watchMetrics({
    client,
    speed: alarmSpeed,
    onChange: onAlarm,
    onError: (error) => report.detail(`metrics: ${error.message}`),
  });
  supervisor.beforeStop(() => watch.stop());
  const apiUrl = `${endpoint}/_aws/execute-api/${outputs['ApiId']}/$default`;
  supervisor.publish({ API: apiUrl, AWS: endpoint, PostgreSQL: `127.0.0.1:${database.port}`, Mail: mail.url });
  return { outputs, apiUrl, endpoint, database, mailProviderUrl: mail.url, client };
}

async function startDatabase(supervisor: Supervisor, temporary: string): Promise<LocalPostgres> {
  const directory = join(temporary, 'postgres');
  await mkdir(directory);
  if (supervisor.stopping) throw new Interrupted();
  const starting = startPostgres({ directory, settings: POSTGRES });
  // Registered before it runs, so that a stop in the middle of the start waits for it and then ends it.
  supervisor.beforeStop(async () => (await starting).stop());
  const server = await starting;
  supervisor.adopt('postgres', server.pid);
  await createDatabase(server, DATABASE);
  return server;
}

/** The first run of each function that has a schedule: the schedules themselves wait a minute for their first. */
async function setGoing(
  supervisor: Supervisor,
  client: ClientSettings,
  outputs: Outputs,
  speed: number,
): Promise<void> {
  const lambda = new LambdaClient(client);
  const stopping = new AbortController();
  const invoke = async (name: string, InvocationType: InvocationType): Promise<void> => {
    const invocation = new InvokeCommand({ FunctionName: outputs[name], InvocationType, Payload: '{}' });
    await lambda.send(invocation, { abortSignal: stopping.signal });
  };
  await invoke('RelayFunctionName', 'Event');
  const pulses = [
    startPulse(() => invoke('MonitorFunctionName', 'Event'), MEASURE_EVERY_MS / speed),
    // The next run waits for this one, which may have much to delete.
    startPulse(() => invoke('JanitorFunctionName', 'RequestResponse'), MEASURE_EVERY_MS / speed),
  ];
  supervisor.beforeStop(async () => {
    stopping.abort();
    await Promise.all(pulses.map((pulse) => pulse.stop()));
    lambda.destroy();
  });
}

/**
 * Not below the repository: where we are root, PostgreSQL runs as another user, who may not pass a home directory; and
 * the emulator's scripts would be taken for ES modules, as the repository's package.json says.
 */
async function temporaryDirectory(supervisor: Supervisor): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'sealed-outbox-local-'));
  supervisor.ownDirectory(directory);
  await chmod(directory, 0o755);
  return directory;
}

async function requireSpace(directory: string): Promise<void> {
  await mkdir(directory, { recursive: true });
  const { bavail, bsize } = await statfs(resolve(directory));
  if (bavail * bsize < NEEDED_BYTES) {
    throw Object.assign(new Error(`no space left on device: ${directory}`), { code: 'ENOSPC' });
  }
}

async function requirePort(port: number): Promise<number> {
  const probe = createServer();
  return new Promise((found, reject) => {
    probe.once('error', () => reject(portTaken(port)));
    probe.listen(port, '127.0.0.1', () => probe.close(() => found(port)));
  });
}

/** What a person gives a PostgreSQL client. */
export function databaseUrl({ host, port, name, password }: DatabaseAddress): string {
  return `postgresql://${MIGRATOR}:${password}@${host}:${port}/${name}`;
}
