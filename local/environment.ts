import { join } from 'node:path';

/** The region and account that the local AWS plays. Not real ones, on purpose. */
export const REGION = 'eu-central-1';
export const ACCOUNT = '000000000000';

/** The repository's root. */
export const ROOT = join(import.meta.dirname, '..');

/**
 * The environment of every process that we start: what a program needs to run at all, Node 24 first on the path, and
 * nothing else. Functions inherit the emulator's environment, so a person's AWS profile, keys or NODE_OPTIONS must not
 * be in it.
 *
 * @param also names to let through for this one process
 */
export function cleanEnvironment(
  env: Readonly<Record<string, string | undefined>>,
  also: readonly string[] = [],
): Record<string, string> {
  const names = ['HOME', 'LANG', 'TMPDIR', 'SYSTEMROOT', ...also];
  const kept = names.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]] as const]));
  return {
    ...Object.fromEntries(kept),
    PATH: `${join(ROOT, 'node_modules', '.bin')}:${env['PATH'] ?? '/usr/bin:/bin'}`,
  };
}

/** How the AWS SDK, the CDK and the functions reach the local AWS. */
export function localAws(port: number): Record<string, string> {
  return {
    AWS_ENDPOINT_URL: `http://127.0.0.1:${port}`,
    AWS_REGION: REGION,
    AWS_DEFAULT_REGION: REGION,
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test',
  };
}
