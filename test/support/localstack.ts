import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startLocalStack } from '../../local/emulator/localstack.ts';
import { LOCALSTACK } from '../../local/emulator/packages.ts';
import { virtualEnvironment } from '../../local/emulator/virtual-environment.ts';
import { REGION, ROOT } from '../../local/environment.ts';
import { freePort } from '../../local/postgres.ts';
import { LocalCloudProblem } from '../../local/problem.ts';
import { openSupervisor, type Supervisor } from '../../local/processes/supervisor.ts';
import { createReport, type Report } from '../../local/report.ts';
import { extraPackages } from '../../scripts/extra-packages.ts';

/** An AWS whose errors are AWS's own, or why there is none. */
export type LocalStack =
  | {
      readonly endpoint: string;
      readonly region: string;
      readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
    }
  | { readonly missing: string };

declare module 'vitest' {
  interface ProvidedContext {
    /** Where it is told when it has started: `foundLocalStack`. */
    localstack: string;
  }
}

/** The last image that needs no token. */
const IMAGE = 'localstack/localstack:4.14.0';
const SERVICES = ['sqs', 'events', 'kms', 's3'];

/**
 * One LocalStack a run: a process of this machine, or with `SEALED_OUTBOX_LOCALSTACK=container` a container. Where that cannot be, the tests
 * are skipped with the reason and the run goes on; what is broken on the way there fails them. It starts beside the first files of other
 * suites, since it waits for a package index and not for the processor: 25 s.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const wanted = process.env['SEALED_OUTBOX_LOCALSTACK'] ?? 'process';
  const { localstack, stop } = wanted === 'container' ? startContainer() : await startProcess();
  const server = tell(localstack);
  await once(server.listen(0, '127.0.0.1'), 'listening');
  project.provide('localstack', `http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  return async () => {
    server.close();
    server.closeAllConnections();
    await stop();
  };
}

/** Answers whoever asks, when it is known: with a `LocalStack`, or with what went wrong. */
function tell(localstack: Promise<LocalStack>): Server {
  // Told to those who ask.
  localstack.catch(() => {});
  return createServer((_, response) => {
    void localstack.then(
      (found) => response.end(JSON.stringify(found)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
}

interface Started {
  readonly localstack: Promise<LocalStack>;
  /** Ends the start as well. */
  readonly stop: () => Promise<void>;
}

const at = (endpoint: string): LocalStack => ({
  endpoint,
  region: REGION,
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
});

const without = (missing: string): LocalStack => {
  console.log(`LocalStack: ${missing}`);
  return { missing };
};

/** What this machine may lack without being broken: Python, its venv part, a package index. */
const LACKING = new Set(['LOCAL_PYTHON_MISSING', 'LOCAL_PYTHON_OLD', 'LOCAL_PYTHON_VENV', 'LOCAL_PIP_REGISTRY']);

async function startProcess(): Promise<Started> {
  const report = createReport({ write: (line) => console.log(line), verbose: false, now: () => performance.now() });
  // What a run that was killed has left is found in this directory and ended.
  const supervisor = await openSupervisor(join(ROOT, '.local', 'contract'), report);
  return { localstack: startedProcess(supervisor, report), stop: () => supervisor.stop() };
}

async function startedProcess(supervisor: Supervisor, report: Report): Promise<LocalStack> {
  try {
    const temporary = await mkdtemp(join(tmpdir(), 'sealed-outbox-localstack-'));
    supervisor.ownDirectory(temporary);
    const python = await report.step('Python environment of LocalStack', (progress) =>
      virtualEnvironment(join(ROOT, '.local'), LOCALSTACK, supervisor, progress),
    );
    const port = await freePort();
    await report.step('LocalStack', () => startLocalStack(supervisor, python, port, temporary, SERVICES));
    return at(`http://127.0.0.1:${port}`);
  } catch (error) {
    if (error instanceof LocalCloudProblem && LACKING.has(error.code)) return without(error.message);
    throw error;
  }
}

function startContainer(): Started {
  const starting = startedContainer();
  return {
    localstack: starting.then((container) =>
      container === null
        ? without('SEALED_OUTBOX_LOCALSTACK=container, and no Docker engine answers')
        : at(container.endpoint),
    ),
    stop: async () => (await starting.catch(() => null))?.stop(),
  };
}

async function startedContainer() {
  await extraPackages('test/containers', (line) => console.log(`LocalStack: ${line}`));
  // Only here: its packages are there from now on.
  const { startLocalStackContainer } = await import('../containers/localstack.ts');
  return startLocalStackContainer(IMAGE, SERVICES);
}
