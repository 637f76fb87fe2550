import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startLocalStack } from '../../local/emulator/localstack.ts';
import { LOCALSTACK } from '../../local/emulator/packages.ts';
import { virtualEnvironment } from '../../local/emulator/virtual-environment.ts';
import { REGION, ROOT } from '../../local/environment.ts';
import { freePort } from '../../local/postgres.ts';
import { LocalCloudProblem } from '../../local/problem.ts';
import { openSupervisor } from '../../local/processes/supervisor.ts';
import { createReport } from '../../local/report.ts';
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
    localstack: LocalStack;
  }
}

/** The last image that needs no token. */
const IMAGE = 'localstack/localstack:4.14.0';
const SERVICES = ['sqs', 'events', 'kms', 's3'];

/**
 * One LocalStack a run: a process of this machine, or with `SEALED_OUTBOX_LOCALSTACK=container` a container. Where that cannot be, the tests
 * are skipped with the reason and the run goes on; what is broken on the way there fails the run.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const wanted = process.env['SEALED_OUTBOX_LOCALSTACK'] ?? 'process';
  const started = wanted === 'container' ? await startContainer() : await startProcess();
  project.provide('localstack', started.localstack);
  return () => started.stop();
}

interface Started {
  readonly localstack: LocalStack;
  stop(): Promise<void>;
}

const at = (endpoint: string): LocalStack => ({
  endpoint,
  region: REGION,
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
});

const without = (missing: string): Started => {
  console.log(`LocalStack: ${missing}`);
  return { localstack: { missing }, stop: async () => {} };
};

/** What this machine may lack without being broken: Python, its venv part, a package index. */
const LACKING = new Set(['LOCAL_PYTHON_MISSING', 'LOCAL_PYTHON_OLD', 'LOCAL_PYTHON_VENV', 'LOCAL_PIP_REGISTRY']);

async function startProcess(): Promise<Started> {
  const report = createReport({ write: (line) => console.log(line), verbose: false, now: () => performance.now() });
  // What a run that was killed has left is found in this directory and ended.
  const supervisor = await openSupervisor(join(ROOT, '.local', 'contract'), report);
  try {
    const temporary = await mkdtemp(join(tmpdir(), 'sealed-outbox-localstack-'));
    supervisor.ownDirectory(temporary);
    const python = await report.step('Python environment of LocalStack', (progress) =>
      virtualEnvironment(join(ROOT, '.local'), LOCALSTACK, supervisor, progress),
    );
    const port = await freePort();
    await report.step('LocalStack', () => startLocalStack(supervisor, python, port, temporary, SERVICES));
    return { localstack: at(`http://127.0.0.1:${port}`), stop: () => supervisor.stop() };
  } catch (error) {
    await supervisor.stop();
    if (error instanceof LocalCloudProblem && LACKING.has(error.code)) return without(error.message);
    throw error;
  }
}

async function startContainer(): Promise<Started> {
  await extraPackages('test/containers', (line) => console.log(`LocalStack: ${line}`));
  // Only here: its packages are there from now on.
  const { startLocalStackContainer } = await import('../containers/localstack.ts');
  const container = await startLocalStackContainer(IMAGE, SERVICES);
  if (container === null) return without('SEALED_OUTBOX_LOCALSTACK=container, and no Docker engine answers');
  return { localstack: at(container.endpoint), stop: () => container.stop() };
}
