import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { access, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { explain, Interrupted, LocalCloudProblem } from '../problem.ts';
import type { Supervisor } from '../processes/supervisor.ts';
import type { Progress } from '../report.ts';
import { cleanEnvironment } from '../environment.ts';
import type { PythonPackages } from './packages.ts';
import { findPython, type Python } from './python.ts';

/** Written last, so that an interrupted installation is recognised and made anew. */
const COMPLETE = '.complete';

/**
 * A Python environment of an emulator's own, exactly as the lock file says, every download checked by its hash. It is
 * kept under the hash of the lock file: MiniStack takes 4 s the first time, LocalStack 25 s, and nothing afterwards.
 *
 * @returns the environment's python
 */
export async function virtualEnvironment(
  cache: string,
  packages: PythonPackages,
  supervisor: Supervisor,
  progress: Progress,
  find: () => Promise<Python> = findPython,
): Promise<string> {
  const { key, lock } = packages;
  const hash = createHash('sha256')
    .update(await readFile(lock))
    .digest('hex')
    .slice(0, 16);
  const directory = join(cache, `${key}-${hash}`);
  const python = join(directory, 'bin', 'python');
  if (await isComplete(directory, python)) return python;

  progress('looking for Python');
  const base = await find();
  for (const name of await readdir(cache)) {
    if (name.startsWith(`${key}-`) && /-[0-9a-f]{16}$/.test(name)) {
      await rm(join(cache, name), { recursive: true, force: true });
    }
  }
  progress(`making a virtual environment with Python ${base.version.join('.')}`);
  // Unpacking pip into the environment takes longer than all else here: it runs from where Python keeps it.
  await install(
    supervisor,
    base.executable,
    ['-m', 'venv', '--clear', ...(base.pip ? ['--without-pip'] : []), directory],
    'python venv',
  );
  progress(`installing ${packages.name}`);
  // Beside the packages: what pip unpacks and is killed over goes when the environment is made anew.
  const temporary = join(directory, 'tmp');
  await mkdir(temporary, { recursive: true });
  if (!(await installWithUv(packages, supervisor, python, base, directory, temporary))) {
    await installWithPip(supervisor, python, base, temporary, lock, packages.sources === true);
  }
  await rm(temporary, { recursive: true, force: true });
  await writeFile(join(directory, COMPLETE), '');
  return python;
}

async function installWithPip(
  supervisor: Supervisor,
  python: string,
  base: Python,
  temporary: string,
  lock: string,
  sources: boolean,
): Promise<void> {
  const flags = [
    '--require-hashes',
    ...(sources ? [] : ['--only-binary', ':all:']),
    '--no-compile',
    '--no-input',
    '--disable-pip-version-check',
  ];
  const pip = ['-m', 'pip', 'install', ...flags, '--retries', '1', '--timeout', '20', '-r', lock];
  await install(supervisor, python, pip, 'pip install', {
    TMPDIR: temporary,
    ...(base.pip && { PYTHONPATH: base.pip }),
  });
}

/** True where it did. Where it cannot (it knows no pip.conf, say), pip is slower and still right. */
async function installWithUv(
  { installer, lock }: PythonPackages,
  supervisor: Supervisor,
  python: string,
  base: Python,
  directory: string,
  temporary: string,
): Promise<boolean> {
  if (installer === undefined) return false;
  await installWithPip(supervisor, python, base, temporary, installer, false);
  // Beside the packages, so that they are linked and not copied.
  const cache = join(directory, 'uv-cache');
  const child = supervisor.start({
    name: 'uv pip install',
    file: python,
    args: ['-m', 'uv', 'pip', 'install', '--require-hashes', '--cache-dir', cache, '--python', python, '-r', lock],
    env: { ...cleanEnvironment(process.env, PIP_SETTINGS), ...uvSettings(process.env), TMPDIR: temporary },
  });
  const code = await child.ended;
  if (code !== 0 && supervisor.stopping) throw new Interrupted();
  await child.stop();
  await rm(cache, { recursive: true, force: true });
  return code === 0;
}

/** uv's names for what a person set for pip. */
function uvSettings(env: Readonly<Record<string, string | undefined>>): Record<string, string> {
  const renamed = {
    UV_DEFAULT_INDEX: env['PIP_INDEX_URL'],
    UV_INDEX: env['PIP_EXTRA_INDEX_URL'],
    SSL_CERT_FILE: env['PIP_CERT'] ?? env['REQUESTS_CA_BUNDLE'],
  };
  return Object.fromEntries(Object.entries(renamed).filter((pair): pair is [string, string] => pair[1] !== undefined));
}

async function isComplete(directory: string, python: string): Promise<boolean> {
  try {
    await access(join(directory, COMPLETE));
    await access(python, constants.X_OK); // a link: dangles when the system's Python was replaced
    return true;
  } catch {
    return false;
  }
}

async function install(
  supervisor: Supervisor,
  file: string,
  args: readonly string[],
  name: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<void> {
  const env = { ...cleanEnvironment(process.env, PIP_SETTINGS), ...environment };
  const child = supervisor.start({ name, file, args, env });
  const code = await child.ended;
  if (code === 0) return child.stop();
  if (supervisor.stopping) throw new Interrupted();
  throw pipProblem(name, child.tail());
}

/** What a person sets to reach a registry from behind a proxy or a mirror has to reach pip. */
const PIP_SETTINGS = [
  'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy',
  'PIP_INDEX_URL', 'PIP_EXTRA_INDEX_URL', 'PIP_TRUSTED_HOST', 'PIP_CERT', 'PIP_CONFIG_FILE', 'PIP_CACHE_DIR',
  'REQUESTS_CA_BUNDLE', 'SSL_CERT_FILE', 'XDG_CONFIG_HOME', 'XDG_CACHE_HOME',
]; // oxfmt-ignore

/** What pip said, as the sentence that helps. */
export function pipProblem(step: string, said: string): Error {
  const full = explain(new Error(said));
  if (full instanceof LocalCloudProblem) return full;
  if (/ensurepip is not available|No module named (venv|ensurepip)|ensurepip.*returned non-zero/s.test(said)) {
    return new LocalCloudProblem(
      'LOCAL_PYTHON_VENV',
      'Python cannot make virtual environments: install its venv part (Debian, Ubuntu: ' +
        '`sudo apt-get install python3-venv`) and run `npm start` again.',
    );
  }
  if (/do not match the hashes/i.test(said)) {
    return new LocalCloudProblem(
      'LOCAL_PIP_HASH',
      'A Python package is not the one that its lock file in local/ names, so it was not installed: ' +
        'check the package index that pip is configured with (PIP_INDEX_URL), then run `npm start` again.',
    );
  }
  if (
    /connection|timed out|name resolution|no matching distribution|could not find a version|ProxyError|SSLError/i.test(
      said,
    )
  ) {
    return new LocalCloudProblem(
      'LOCAL_PIP_REGISTRY',
      'pip cannot reach a package index: check the network, or set PIP_INDEX_URL or HTTPS_PROXY, and run ' +
        '`npm start` again (only the first start needs it).',
    );
  }
  return new LocalCloudProblem(
    'LOCAL_PIP',
    `\`${step}\` failed, see its log in the logs directory. Its last words: ${said.slice(-600)}`,
  );
}
