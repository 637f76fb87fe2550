import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MINISTACK } from '../../local/emulator/packages.ts';
import { startMiniStack } from '../../local/emulator/ministack.ts';
import { virtualEnvironment } from '../../local/emulator/virtual-environment.ts';
import { ACCOUNT, REGION } from '../../local/environment.ts';
import { freePort } from '../../local/postgres.ts';
import { LocalCloudProblem } from '../../local/problem.ts';
import { openSupervisor } from '../../local/processes/supervisor.ts';
import { createReport } from '../../local/report.ts';
import { ROOT } from './synthesised.ts';

/** For an AWS SDK client. */
export interface Caller {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: {
    readonly accessKeyId: string;
    readonly secretAccessKey: string;
    readonly sessionToken?: string;
  };
}

/** An AWS that refuses what policies do not allow. */
export interface Account {
  /** May do everything. */
  readonly root: Caller;
  /** A session of a new role with these statements, as a function has one. */
  roleWith(name: string, statements: readonly unknown[]): Promise<Caller>;
  /** A new user with these statements. */
  userWith(name: string, statements: readonly unknown[]): Promise<Caller>;
  stop(): Promise<void>;
}

/** What a machine may lack without being broken: Python, its venv part, a package index. */
const LACKING = new Set(['LOCAL_PYTHON_MISSING', 'LOCAL_PYTHON_OLD', 'LOCAL_PYTHON_VENV', 'LOCAL_PIP_REGISTRY']);

/** Starts MiniStack with IAM in force, in a process of its own. @returns why there is none, where this machine lacks Python */
export async function startAccount(): Promise<Account | { readonly missing: string }> {
  const report = createReport({ write: (line) => console.log(line), verbose: false, now: () => performance.now() });
  // What a run that was killed has left is found in this directory and ended.
  const supervisor = await openSupervisor(join(ROOT, '.local', 'iam'), report);
  try {
    const temporary = await mkdtemp(join(tmpdir(), 'sealed-outbox-iam-'));
    supervisor.ownDirectory(temporary);
    const python = await virtualEnvironment(join(ROOT, '.local'), MINISTACK, supervisor, () => {});
    const port = await freePort();
    await startMiniStack(supervisor, python, port, temporary, { AUTH: 'true' });
    return account(`http://127.0.0.1:${port}`, () => supervisor.stop());
  } catch (error) {
    await supervisor.stop();
    if (error instanceof LocalCloudProblem && LACKING.has(error.code)) return { missing: error.message };
    throw error;
  }
}

function account(endpoint: string, stop: () => Promise<void>): Account {
  const as = (credentials: Caller['credentials']): Caller => ({ endpoint, region: REGION, credentials });
  const ask = async (service: 'iam' | 'sts', parameters: Readonly<Record<string, string>>): Promise<string> => {
    const answer = await fetch(endpoint, {
      method: 'POST',
      headers: {
        // The root's signature is not looked at; which service is meant stands in it.
        authorization: `AWS4-HMAC-SHA256 Credential=test/20260101/${REGION}/${service}/aws4_request, SignedHeaders=host, Signature=0`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: new URLSearchParams(parameters),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${parameters['Action']}: ${text}`);
    return text;
  };
  const document = (statements: readonly unknown[]): string =>
    JSON.stringify({ Version: '2012-10-17', Statement: statements });
  const credentialsIn = (text: string): Caller['credentials'] => {
    const part = (name: string): string => new RegExp(`<${name}>([^<]+)</${name}>`).exec(text)?.[1] ?? '';
    const sessionToken = part('SessionToken');
    return {
      accessKeyId: part('AccessKeyId'),
      secretAccessKey: part('SecretAccessKey'),
      ...(sessionToken !== '' && { sessionToken }),
    };
  };
  return {
    root: as({ accessKeyId: 'test', secretAccessKey: 'test' }),
    stop,
    async roleWith(name, statements) {
      const trust = [{ Effect: 'Allow', Principal: { AWS: '*' }, Action: 'sts:AssumeRole' }];
      await ask('iam', { Action: 'CreateRole', RoleName: name, AssumeRolePolicyDocument: document(trust) });
      if (statements.length > 0) {
        await ask('iam', {
          Action: 'PutRolePolicy',
          RoleName: name,
          PolicyName: 'own',
          PolicyDocument: document(statements),
        });
      }
      const RoleArn = `arn:aws:iam::${ACCOUNT}:role/${name}`;
      return as(credentialsIn(await ask('sts', { Action: 'AssumeRole', RoleArn, RoleSessionName: 'trial' })));
    },
    async userWith(name, statements) {
      await ask('iam', { Action: 'CreateUser', UserName: name });
      await ask('iam', {
        Action: 'PutUserPolicy',
        UserName: name,
        PolicyName: 'own',
        PolicyDocument: document(statements),
      });
      return as(credentialsIn(await ask('iam', { Action: 'CreateAccessKey', UserName: name })));
    },
  };
}
