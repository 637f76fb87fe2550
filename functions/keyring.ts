import { SealedOutboxError } from '../shared/errors/index.ts';
import {
  createIndexKeys,
  createKeyring,
  type ErasureLog,
  folderErasureLog,
  type IndexKeys,
  type Keyring,
  type Kms,
  kmsKeys,
  postgresIndexVault,
  postgresVault,
  s3ErasureLog,
  type VaultPool,
} from '../shared/sealing/index.ts';
import type { Metrics } from '../shared/telemetry/index.ts';
import { kmsCalls } from './kms.ts';
import { s3Calls } from './s3.ts';
import { functionMetrics } from './metrics.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** The environment does not describe a keyring. Thrown at start; nothing was sealed or opened. */
export class KeyringConfigError extends SealedOutboxError {
  constructor(message: string) {
    super('KEYRING_CONFIG', `${message} Nothing was sealed or opened.`);
  }
}

export interface KeyringConfig {
  /** The vault's name, which every key in it is bound to. */
  readonly vault: string;
  /** ARN of the KMS key that wraps branch keys. */
  readonly keyArn: string;
  /** Where erasures are written down. Undefined: nowhere, and a restored backup would bring erased persons back. */
  readonly erasureLog: { readonly bucket: string } | { readonly folder: string } | undefined;
}

const VAULT = /^[a-z][a-z0-9-]{0,62}$/;
/** No alias: it may come to mean another key. */
const KEY_ARN = /^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key\/[A-Za-z0-9-]+$/;

const BUCKET = /^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/;

/**
 * Reads `SEALING_VAULT` (the vault's name, `[a-z][a-z0-9-]{0,62}`), `SEALING_KEY_ARN` (a KMS key, no alias) and `SEALING_ERASURE_LOG` (the bucket of the log
 * of erasures, or `file:///folder`; may be missing). `SealingKeys` sets them for every function that it gives classes to.
 *
 * @throws KeyringConfigError (`KEYRING_CONFIG`) naming the variable
 */
export function keyringConfig(env: Environment): KeyringConfig {
  return {
    vault: matching(env, 'SEALING_VAULT', VAULT, 'the name of a vault: 1-63 of a-z 0-9 -, with a letter first'),
    keyArn: matching(env, 'SEALING_KEY_ARN', KEY_ARN, 'the ARN of a KMS key, not an alias or an id'),
    erasureLog: erasureLog(env['SEALING_ERASURE_LOG'] ?? ''),
  };
}

function matching(env: Environment, name: string, form: RegExp, what: string): string {
  const value = env[name] ?? '';
  if (value === '') throw new KeyringConfigError(`${name} is not set: give the function classes of data in its stack.`);
  if (!form.test(value)) throw new KeyringConfigError(`${name} must be ${what}.`);
  return value;
}

function erasureLog(value: string): KeyringConfig['erasureLog'] {
  if (value === '') return undefined;
  const [, folder] = /^file:\/\/(\/.+)$/.exec(value) ?? [];
  if (folder !== undefined) return { folder };
  if (BUCKET.test(value)) return { bucket: value };
  throw new KeyringConfigError('SEALING_ERASURE_LOG must be the name of a bucket, or file:///folder.');
}

/** What a function works with where it does more than seal and open: the parts of its keyring. */
export interface FunctionKeys {
  /** The vault's name. */
  readonly name: string;
  readonly kms: Kms;
  /** Undefined: erasures are written down nowhere. */
  readonly erasures: ErasureLog | undefined;
  readonly keyring: Keyring;
  readonly indexKeys: IndexKeys;
}

/**
 * The keys of a function: in the vault of `pool`'s database, wrapped by the KMS key of its environment. Make them once for a process, outside
 * the handler: they keep what they have loaded.
 *
 * Counts `KmsErrors`, under the `Installation` that `OUTBOX_INSTALLATION` names.
 *
 * @throws KeyringConfigError (`KEYRING_CONFIG`)
 */
export function functionKeys(pool: VaultPool, env: Environment = process.env): FunctionKeys {
  const { vault: name, keyArn, erasureLog: place } = keyringConfig(env);
  const client = kmsCalls({
    // Whoever waits for keys decides whether to try again; the keyring gives a call up after 3 s.
    maxAttempts: 1,
    requestHandler: { connectionTimeout: 2_000, requestTimeout: 3_000, throwOnRequestTimeout: true },
  });
  const metrics = functionMetrics(env);
  const kms = withErrorsCounted(kmsKeys({ client, keyArn }), metrics);
  const erasures = place && logAt(place, env);
  return {
    name,
    kms,
    erasures,
    keyring: createKeyring({ name, vault: postgresVault(pool), kms, ...(erasures && { erasures }) }),
    indexKeys: createIndexKeys({ name, vault: postgresIndexVault(pool), kms }),
  };
}

/** The keyring alone. @throws KeyringConfigError (`KEYRING_CONFIG`) */
export function functionKeyring(pool: VaultPool, env: Environment = process.env): Keyring {
  return functionKeys(pool, env).keyring;
}

function logAt(place: NonNullable<KeyringConfig['erasureLog']>, env: Environment): ErasureLog {
  if ('folder' in place) return folderErasureLog(place.folder);
  return s3ErasureLog({ client: s3Calls(5_000, env), bucket: place.bucket });
}

/** Each call that fails is one `KmsErrors` (Count), whatever the keyring then makes of it: with a key in memory nobody else may notice. */
export function withErrorsCounted(kms: Kms, metrics: Metrics): Kms {
  const counted = async <T>(call: Promise<T>): Promise<T> => {
    try {
      return await call;
    } catch (error) {
      metrics.add('KmsErrors', 'Count', 1);
      throw error;
    }
  };
  return {
    generate: (context) => counted(kms.generate(context)),
    wrap: (plaintext, context) => counted(kms.wrap(plaintext, context)),
    unwrap: (key, context) => counted(kms.unwrap(key, context)),
  };
}
