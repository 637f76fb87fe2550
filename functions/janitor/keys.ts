import type pg from 'pg';
import { SealedOutboxError } from '../../shared/errors/index.ts';
import { systemClock } from '../../shared/outbox/index.ts';
import {
  createIndexKeys,
  createKeyring,
  type ErasureLog,
  kmsKeys,
  postgresIndexVault,
  postgresRotation,
  postgresVault,
  renewSubjectKey,
  type RotationRequests,
  runIndexes,
  runRotation,
  takeRotationRequests,
  type VaultPool,
} from '../../shared/sealing/index.ts';
import type { Log, Metrics } from '../../shared/telemetry/index.ts';
import { kmsCalls } from '../kms.ts';
import type { JanitorSealing } from './config.ts';

/**
 * What may be asked of a run, as the event of an invocation: `{"rotate": ["contact"]}`, classes whose branch key is replaced now; `rotateIndex`, blind indexes whose
 * key is; `renew`, persons whose key of a class gets a new version, because the old one may have become known.
 */
export type KeyRequest = RotationRequests;

/** `JANITOR_EVENT`: what was asked for cannot be read, or there is no vault. Thrown before anything was done. */
export class JanitorEventError extends SealedOutboxError {
  constructor(message: string) {
    super('JANITOR_EVENT', `${message} Nothing was done.`);
  }
}

/** @throws JanitorEventError (`JANITOR_EVENT`) */
export function keyRequest(event: unknown, sealing: JanitorSealing | undefined): KeyRequest {
  const {
    rotate = [],
    rotateIndex = [],
    renew = [],
  } = (typeof event === 'object' && event !== null ? event : {}) as Record<string, unknown>;
  if (!Array.isArray(rotate) || !rotate.every(isText)) {
    throw new JanitorEventError('"rotate" must be a list of classes.');
  }
  if (!Array.isArray(rotateIndex) || !rotateIndex.every(isText)) {
    throw new JanitorEventError('"rotateIndex" must be a list of names of indexes.');
  }
  if (!Array.isArray(renew) || !renew.every(isRenewal)) {
    throw new JanitorEventError('"renew" must be a list of {"class", "subject": {"kind", "id"}}.');
  }
  if (rotate.length + rotateIndex.length + renew.length > 0 && sealing === undefined) {
    throw new JanitorEventError('This janitor has no vault: SEALING_VAULT is not set.');
  }
  return { rotate, rotateIndex, renew };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isRenewal(value: unknown): value is KeyRequest['renew'][number] {
  const { class: className, subject } = (value ?? {}) as Record<string, unknown>;
  const { kind, id } = (subject ?? {}) as Record<string, unknown>;
  return [className, kind, id].every(isText);
}

interface LookAfterKeys {
  /** In no transaction. */
  readonly client: pg.Client;
  readonly sealing: JanitorSealing;
  /** Of this invocation; what was asked for in the vault is done besides. */
  readonly request: KeyRequest;
  /** The log of erasures, where there is one. */
  readonly erasures: ErasureLog | undefined;
  readonly budgetMs: number;
  readonly rest: number;
  readonly log: Log;
  readonly metrics: Metrics;
}

/**
 * Rotates keys for two thirds of its time at most, and looks after blind indexes for the rest. Never rejects: what fails is logged, and old rows
 * are deleted all the same.
 */
export async function lookAfterKeys(options: LookAfterKeys): Promise<{ readonly failed: boolean }> {
  const { client, sealing, budgetMs, rest, log, metrics, erasures } = options;
  const kmsClient = kmsCalls({
    maxAttempts: 2,
    requestHandler: { connectionTimeout: 2_000, requestTimeout: 3_000, throwOnRequestTimeout: true },
  });
  const kms = kmsKeys({ client: kmsClient, keyArn: sealing.keyArn, timeoutMs: 8_000 });
  // A connection of its own, in no transaction: what it does is committed at once, as with a pool.
  const pool: VaultPool = { totalCount: 1, query: (...given) => client.query(...given) };
  const ports = { name: sealing.vault, vault: postgresRotation(client), keys: postgresVault(pool), kms };
  const common = { kmsKey: sealing.keyArn, rest, clock: systemClock, log, metrics };
  let failed = false;
  const attempt = async (what: string, work: () => Promise<{ readonly failed?: boolean } | void>): Promise<void> => {
    try {
      if ((await work())?.failed === true) failed = true;
    } catch (error) {
      const { name, code } = error as Error & { code?: string };
      failed = true;
      log.error(`${what}; the next run tries again`, { error: { name, code } });
    }
  };
  try {
    let asked = options.request;
    await attempt('what is asked for in the vault could not be read', async () => {
      asked = both(asked, await takeRotationRequests(client));
    });
    for (const { class: className, subject } of asked.renew) {
      await attempt(`the key of a person (${className}, ${subject.kind}) was not renewed`, async () => {
        const version = await renewSubjectKey(ports, className, subject);
        log.info('the key of a person was renewed', { class: className, kind: subject.kind, version });
      });
    }
    await attempt('keys could not be looked after', async () => {
      const { branchSeconds } = sealing;
      const share = (budgetMs * 2) / 3;
      const report = await runRotation({ ...ports, ...common, branchSeconds, now: asked.rotate, budgetMs: share });
      log.info('keys were looked after', { ...report });
      return report;
    });
    if (sealing.indexes.length + asked.rotateIndex.length === 0) return { failed };
    await attempt('blind indexes could not be looked after', async () => {
      const report = await runIndexes({
        ...common,
        name: sealing.vault,
        pool,
        kms,
        keyring: createKeyring({ ...ports, vault: ports.keys, ...(erasures && { erasures }) }),
        indexKeys: createIndexKeys({ ...ports, vault: postgresIndexVault(pool) }),
        indexes: sealing.indexes,
        keySeconds: sealing.indexSeconds,
        now: asked.rotateIndex,
        budgetMs: budgetMs / 3,
      });
      log.info('blind indexes were looked after', { ...report });
      return report;
    });
    return { failed };
  } finally {
    kmsClient.destroy();
  }
}

function both(one: RotationRequests, other: RotationRequests): RotationRequests {
  return {
    rotate: [...new Set([...one.rotate, ...other.rotate])],
    rotateIndex: [...new Set([...one.rotateIndex, ...other.rotateIndex])],
    renew: [...one.renew, ...other.renew],
  };
}
