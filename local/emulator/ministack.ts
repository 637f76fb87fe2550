import { join } from 'node:path';
import { cleanEnvironment, localAws, REGION } from '../environment.ts';
import { explain, LocalCloudProblem } from '../problem.ts';
import type { Child, Supervisor } from '../processes/supervisor.ts';
import { untilHealthy } from './healthy.ts';

const LAUNCHER = join(import.meta.dirname, 'ministack.py');

/** It is up in 0.3 s; a busy machine may take longer. */
const HEALTHY_WITHIN_MS = 60_000;

/**
 * Starts the emulator and waits until it answers.
 *
 * @param temporary a directory for its files, outside the repository, removed by the caller
 * @param also variables of its own, such as `AUTH: 'true'`: it then refuses what IAM policies do not allow
 * @throws LocalCloudProblem `LOCAL_EMULATOR` with the end of its log
 */
export async function startMiniStack(
  supervisor: Supervisor,
  python: string,
  port: number,
  temporary: string,
  also: Readonly<Record<string, string>> = {},
): Promise<Child> {
  const child = supervisor.start({
    name: 'ministack',
    file: python,
    args: ['-I', LAUNCHER],
    env: {
      ...cleanEnvironment(process.env),
      ...localAws(port),
      GATEWAY_PORT: String(port),
      BIND_HOST: '127.0.0.1', // its default is every interface of the machine
      MINISTACK_REGION: REGION,
      LAMBDA_EXECUTOR: 'local',
      IOT_MTLS_ENABLED: '0',
      SFTP_ENABLED: '0',
      DOCKER_HOST: `unix://${join(temporary, 'no-docker')}`, // it would tidy up containers of other installations
      TMPDIR: temporary, // the functions' code, unpacked
      ...also,
    },
  });
  await untilHealthy(supervisor, child, `http://127.0.0.1:${port}/_ministack/health`, HEALTHY_WITHIN_MS, () =>
    problem(child, port),
  );
  return child;
}

function problem(child: Child, port: number): Error {
  const said = child.tail();
  const explained = explain(new Error(said));
  if (explained instanceof LocalCloudProblem) return explained;
  if (/already in use/i.test(said)) return portTaken(port);
  return new LocalCloudProblem('LOCAL_EMULATOR', `The local AWS did not start. Its last words:\n${said}`);
}

export function portTaken(port: number): LocalCloudProblem {
  return new LocalCloudProblem(
    'LOCAL_PORT_TAKEN',
    `Port ${port} is taken by another program: choose another one, or leave --port out to get a free one.`,
  );
}
