import { readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { SealedOutboxError } from '../../shared/errors/index.ts';

/** Options that say which installation is meant, as `parseArgs` takes them. */
export const TARGET_OPTIONS = {
  stack: { type: 'string' },
  function: { type: 'string' },
  region: { type: 'string' },
  profile: { type: 'string' },
  directory: { type: 'string' },
} as const;

export interface TargetOptions {
  readonly stack?: string | undefined;
  readonly function?: string | undefined;
  readonly region?: string | undefined;
  readonly profile?: string | undefined;
  readonly directory?: string | undefined;
}

/** Which installation, and how the AWS SDK reaches it. */
export interface Target {
  readonly stack: string;
  readonly operatorFunction: string;
  readonly client: ClientSettings;
  /** Who calls, where that is settled: on this machine. On AWS, STS is asked. */
  readonly caller: string | undefined;
}

export interface ClientSettings {
  readonly endpoint?: string;
  readonly region?: string;
  readonly profile?: string;
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

const LOCAL_STACK = 'sealed-outbox-local-service';

export const TARGET_HELP = `  Which installation (default: the local cloud that npm start runs here):
  --stack <name>      the service stack on AWS, such as sealed-outbox-prod-service; or SEALED_OUTBOX_STACK
  --function <name>   the operator's function, where it has another name than <stack>-operator
  --region, --profile as the AWS SDK has them; without them its own chain (AWS_REGION, AWS_PROFILE, SSO, …)
  --directory <path>  of the local cloud (default: .local)`;

/**
 * @param env for `SEALED_OUTBOX_STACK`
 * @throws SealedOutboxError `TARGET` when no local cloud runs here and nothing else was said
 */
export function targetOf(options: TargetOptions, env: Readonly<Record<string, string | undefined>>): Target {
  const stack = options.stack ?? (options.directory === undefined ? env['SEALED_OUTBOX_STACK'] : undefined);
  if (stack === undefined && options.function === undefined) return localTarget(options.directory ?? '.local');
  const client = {
    ...(options.region !== undefined && { region: options.region }),
    ...(options.profile !== undefined && { profile: options.profile }),
  };
  const operatorFunction = options.function ?? `${stack}-operator`;
  return { stack: stack ?? operatorFunction.replace(/-operator$/, ''), operatorFunction, client, caller: undefined };
}

/** What `npm start` has written down about itself. */
function localTarget(directory: string): Target {
  let endpoint: string | undefined;
  try {
    const text = readFileSync(join(resolve(directory), 'state.json'), 'utf8');
    endpoint = (JSON.parse(text) as { addresses?: { AWS?: string } }).addresses?.AWS;
  } catch {
    endpoint = undefined;
  }
  if (endpoint === undefined) {
    throw new SealedOutboxError(
      'TARGET',
      `no local cloud runs in ${directory}. Start one with npm start, or name the installation on AWS: --stack <name>.`,
    );
  }
  return {
    stack: LOCAL_STACK,
    operatorFunction: `${LOCAL_STACK}-operator`,
    client: {
      endpoint,
      // As the local cloud has them; its AWS takes any.
      region: 'eu-central-1',
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    },
    caller: `local:${userInfo().username}`,
  };
}
