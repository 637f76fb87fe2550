import { readFileSync } from 'node:fs';
import { Signer } from '@aws-sdk/rds-signer';
import type { ClientConfig } from 'pg';
import { SealedOutboxError } from '../errors/index.ts';

/** Where the database is and who connects. Everything but `auth: 'password'` is checked by TLS with the host's name. */
export type DatabaseConfig = {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
} & (
  | {
      readonly auth: 'iam';
      /** AWS region of the cluster. */
      readonly region: string;
      /** PEM bundle of the region's RDS certificate authorities. Lambda's Node.js does not know them. */
      readonly certificateAuthorities: string;
    }
  | { readonly auth: 'password'; readonly password: string }
);

/** The environment does not describe a database. Thrown at start, before anything is tried. */
export class DatabaseConfigError extends SealedOutboxError {
  constructor(message: string) {
    super('DATABASE_CONFIG', message);
  }
}

const LOOPBACK = new Set(['127.0.0.1', '::1', 'localhost']);

/**
 * Reads the database from the environment:
 * `DATABASE_HOST`, `DATABASE_PORT` (5432), `DATABASE_NAME`, `DATABASE_USER`, `DATABASE_AUTH` (`iam` or `password`);
 * for `iam` also `AWS_REGION` and `DATABASE_CA_FILE` (PEM bundle); for `password`, which is refused for any host but
 * this machine's own because it is neither encrypted nor short-lived, `DATABASE_PASSWORD`.
 *
 * @throws DatabaseConfigError (`DATABASE_CONFIG`) naming the variable that is missing or wrong.
 */
export function databaseConfig(env: Readonly<Record<string, string | undefined>>): DatabaseConfig {
  const need = (name: string): string => {
    const value = env[name];
    if (value === undefined || value === '') {
      throw new DatabaseConfigError(`${name} is not set: nothing was connected. Set it to reach the outbox database.`);
    }
    return value;
  };
  const port = Number(env['DATABASE_PORT'] ?? 5432);
  if (!Number.isInteger(port) || port < 1 || port > 65535) {
    throw new DatabaseConfigError('DATABASE_PORT must be a port number between 1 and 65535.');
  }
  const where = {
    host: need('DATABASE_HOST'),
    port,
    database: need('DATABASE_NAME'),
    user: need('DATABASE_USER'),
  };
  const auth = env['DATABASE_AUTH'] ?? 'iam';
  switch (auth) {
    case 'iam':
      return {
        ...where,
        auth,
        region: need('AWS_REGION'),
        certificateAuthorities: readAuthorities(need('DATABASE_CA_FILE')),
      };
    case 'password':
      if (!LOOPBACK.has(where.host)) {
        throw new DatabaseConfigError(
          'DATABASE_AUTH=password is for a database on this machine only: use DATABASE_AUTH=iam, which brings TLS.',
        );
      }
      return { ...where, auth, password: need('DATABASE_PASSWORD') };
    default:
      throw new DatabaseConfigError('DATABASE_AUTH must be iam or password.');
  }
}

/**
 * Reads `DATABASE_POOL_SIZE`, the most connections that one sandbox opens. The deployment sets it, because it also counts the sandboxes: all
 * of them together must fit into the database. Default: 4.
 *
 * @throws DatabaseConfigError (`DATABASE_CONFIG`)
 */
export function poolSize(env: Readonly<Record<string, string | undefined>>): number {
  const size = Number(env['DATABASE_POOL_SIZE'] ?? 4);
  if (!Number.isInteger(size) || size < 1 || size > 100) {
    throw new DatabaseConfigError('DATABASE_POOL_SIZE must be an integer from 1 to 100.');
  }
  return size;
}

function readAuthorities(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    throw new DatabaseConfigError(
      `DATABASE_CA_FILE cannot be read (${code}): it must name a PEM bundle of the region's RDS authorities.`,
    );
  }
}

/** How `pg` connects to it. An IAM token lives 15 minutes and is made at every connect. */
export function clientConfig(config: DatabaseConfig): ClientConfig {
  const { host, port, database, user } = config;
  const base: ClientConfig = {
    host,
    port,
    database,
    user,
    keepAlive: true,
    connectionTimeoutMillis: 10_000,
  };
  if (config.auth === 'password') return { ...base, password: config.password, ssl: false };
  const signer = new Signer({ hostname: host, port, username: user, region: config.region });
  return {
    ...base,
    password: async () => signer.getAuthToken(),
    ssl: { ca: config.certificateAuthorities, rejectUnauthorized: true, servername: host },
  };
}
