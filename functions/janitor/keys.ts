import { KMS } from '@aws-sdk/client-kms';
import type pg from 'pg';
import { SealedOutboxError } from '../../shared/errors/index.ts';
import { systemClock } from '../../shared/outbox/index.ts';
import {
  kmsKeys,
  postgresRotation,
  postgresVault,
  renewSubjectKey,
  type RotationReport,
  runRotation,
  type Subject,
  type VaultPool,
} from '../../shared/sealing/index.ts';
import type { Log, Metrics } from '../../shared/telemetry/index.ts';
import type { JanitorSealing } from './config.ts';

/** What an operator may ask of a run, as the event of an invocation: `{"rotate": ["contact"]}`. */
export interface KeyRequest {
  /** Classes whose branch key is replaced now. */
  readonly rotate: readonly string[];
  /** Persons whose key of a class gets a new version, because the old one may have become known. */
  readonly renew: readonly { readonly class: string; readonly subject: Subject }[];
}

/** `JANITOR_EVENT`: what was asked for cannot be read, or there is no vault. Thrown before anything was done. */
export class JanitorEventError extends SealedOutboxError {
  constructor(message: string) {
    super('JANITOR_EVENT', `${message} Nothing was done.`);
  }
}

/** @throws JanitorEventError (`JANITOR_EVENT`) */
export function keyRequest(event: unknown, sealing: JanitorSealing | undefined): KeyRequest {
  const { rotate = [], renew = [] } = (typeof event === 'object' && event !== null ? event : {}) as Record<
    string,
    unknown
  >;
  if (!Array.isArray(rotate) || !rotate.every(isText)) {
    throw new JanitorEventError('"rotate" must be a list of classes.');
  }
  if (!Array.isArray(renew) || !renew.every(isRenewal)) {
    throw new JanitorEventError('"renew" must be a list of {"class", "subject": {"kind", "id"}}.');
  }
  if (rotate.length + renew.length > 0 && sealing === undefined) {
    throw new JanitorEventError('This janitor has no vault: SEALING_VAULT is not set.');
  }
  return { rotate, renew };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isRenewal(value: unknown): value is KeyRequest['renew'][number] {
  const { class: className, subject } = (value ?? {}) as Record<string, unknown>;
  const { kind, id } = (subject ?? {}) as Record<string, unknown>;
  return [className, kind, id].every(isText);
}

interface RotateKeys {
  /** In no transaction. */
  readonly client: pg.Client;
  readonly sealing: JanitorSealing;
  readonly request: KeyRequest;
  readonly budgetMs: number;
  readonly rest: number;
  readonly log: Log;
  readonly metrics: Metrics;
}

/** Never rejects: what fails is logged, and old rows are deleted all the same. */
export async function rotateKeys(options: RotateKeys): Promise<Pick<RotationReport, 'failed'>> {
  const { client, sealing, request, budgetMs, rest, log, metrics } = options;
  const kmsClient = new KMS({
    maxAttempts: 2,
    requestHandler: { connectionTimeout: 2_000, requestTimeout: 3_000, throwOnRequestTimeout: true },
  });
  const kms = kmsKeys({ client: kmsClient, keyArn: sealing.keyArn, timeoutMs: 8_000 });
  // A connection of its own, in no transaction: what it does is committed at once, as with a pool.
  const pool: VaultPool = { totalCount: 1, query: (...given) => client.query(...given) };
  const ports = { name: sealing.vault, vault: postgresRotation(client), keys: postgresVault(pool), kms };
  let failed = false;
  const failure = (message: string, fields: object, error: unknown): void => {
    const { name, code } = error as Error & { code?: string };
    failed = true;
    log.error(message, { ...fields, error: { name, code } });
  };
  try {
    for (const { class: className, subject } of request.renew) {
      try {
        const version = await renewSubjectKey(ports, className, subject);
        log.info('the key of a person was renewed', { class: className, kind: subject.kind, version });
      } catch (error) {
        failure('the key of a person was not renewed', { class: className, kind: subject.kind }, error);
      }
    }
    const report = await runRotation({
      ...ports,
      kmsKey: sealing.keyArn,
      branchSeconds: sealing.branchSeconds,
      now: request.rotate,
      budgetMs,
      rest,
      clock: systemClock,
      log,
      metrics,
    });
    log.info('keys were looked after', { ...report });
    return { failed: failed || report.failed };
  } catch (error) {
    failure('keys could not be looked after; the next run tries again', {}, error);
    return { failed };
  } finally {
    kmsClient.destroy();
  }
}
