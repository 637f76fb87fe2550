import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { cleanEnvironment } from '../environment.ts';
import { explain, Interrupted, LocalCloudProblem } from '../problem.ts';
import type { Child, Supervisor } from '../processes/supervisor.ts';

const LAUNCHER = join(import.meta.dirname, 'localstack.py');

/** Ready in 3 s; a busy machine, or the first start after the installation, takes longer. */
const HEALTHY_WITHIN_MS = 120_000;

/**
 * Starts LocalStack as a process of this machine, on 127.0.0.1, and waits until it answers. Each service is loaded by its first
 * call: 1 to 3 s.
 *
 * @param services names as LocalStack has them, such as `sqs`
 * @param temporary a directory for its files, removed by the caller
 * @throws LocalCloudProblem `LOCAL_EMULATOR` with the end of its log
 */
export async function startLocalStack(
  supervisor: Supervisor,
  python: string,
  port: number,
  temporary: string,
  services: readonly string[],
): Promise<Child> {
  const child = supervisor.start({
    name: 'localstack',
    file: python,
    args: ['-I', LAUNCHER],
    env: {
      ...cleanEnvironment(process.env),
      GATEWAY_LISTEN: `127.0.0.1:${port}`,
      SERVICES: services.join(','),
      EAGER_SERVICE_LOADING: '0',
      SKIP_SSL_CERT_DOWNLOAD: '1',
      DISABLE_EVENTS: '1', // no reports to its makers
      DNS_ADDRESS: '0', // no name server
      LOCALSTACK_VOLUME_DIR: temporary,
      TMPDIR: temporary,
      DOCKER_HOST: `unix://${join(temporary, 'no-docker')}`,
    },
  });
  let ended: number | NodeJS.Signals | undefined;
  child.ended.then(
    (how) => (ended = how),
    () => (ended = 1),
  );
  const deadline = performance.now() + HEALTHY_WITHIN_MS;
  while (!(await isHealthy(port))) {
    if (supervisor.stopping) throw new Interrupted();
    if (ended !== undefined || performance.now() > deadline) throw problem(child);
    await delay(50);
  }
  return child;
}

async function isHealthy(port: number): Promise<boolean> {
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/_localstack/health`, { signal: AbortSignal.timeout(2_000) });
    await answer.arrayBuffer();
    return answer.ok;
  } catch {
    return false;
  }
}

function problem(child: Child): Error {
  const said = child.tail();
  const explained = explain(new Error(said));
  if (explained instanceof LocalCloudProblem) return explained;
  return new LocalCloudProblem('LOCAL_EMULATOR', `LocalStack did not start. Its last words:\n${said}`);
}
