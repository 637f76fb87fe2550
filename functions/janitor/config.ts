import { SealedOutboxError } from '../../shared/errors/index.ts';
import { type ArchiveAddress, placeOf } from '../archive-address.ts';
import {
  declaredIndexes,
  type DeclaredIndex,
  defineErasable,
  type ErasableColumns,
  ErasureError,
  type IndexOverColumns,
} from '../../shared/sealing/index.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** The environment of the janitor is wrong. Thrown at start; nothing was deleted. */
export class JanitorConfigError extends SealedOutboxError {
  constructor(message: string) {
    super('JANITOR_CONFIG', `${message} Nothing was deleted.`);
  }
}

export interface JanitorConfig {
  /** Seconds; undefined: the outbox is not pruned. */
  readonly outboxSeconds: number | undefined;
  /** Seconds; undefined: the inbox is not pruned. */
  readonly inboxSeconds: number | undefined;
  /** SQL functions of other areas, `schema.name(keep interval, page integer)`, and how long what they delete is kept. */
  readonly also: readonly { readonly name: string; readonly keepSeconds: number }[];
  readonly archive: ArchiveAddress | undefined;
  /** Undefined: nobody is erased by this function. */
  readonly erasures: ErasureConfig | undefined;
  /** Whose keys it rotates; undefined: nobody's. */
  readonly sealing: JanitorSealing | undefined;
  /** Seconds that a run takes at most. */
  readonly maxSeconds: number;
  readonly rest: number;
}

export interface JanitorSealing {
  /** The vault's name, which every key in it is bound to. */
  readonly vault: string;
  /** ARN of the KMS key that wraps branch keys from now on. */
  readonly keyArn: string;
  /** How old a branch key becomes before another takes its place. */
  readonly branchSeconds: number;
  /** Blind indexes whose keys it replaces, and whose columns it then brings up to date. */
  readonly indexes: readonly IndexOverColumns[];
  /** How old an index key becomes before another takes its place. */
  readonly indexSeconds: number;
}

export interface ErasureConfig {
  readonly log: ArchiveAddress;
  readonly erasable: readonly ErasableColumns[];
}

const DAY = 86_400;

/**
 * Reads
 *
 * - `OUTBOX_KEEP_DAYS` (14) and `INBOX_KEEP_DAYS` (35): days, or `none` for an area that is not pruned by this function
 * - `JANITOR_ARCHIVE`: `none` (the default), `s3://bucket`, or `file:///folder`
 * - `JANITOR_ALSO`: JSON such as `{"sample.prune_idempotency": 7}`: functions of your own, and days
 * - `SEALING_ERASURE_LOG`: the bucket of the log of erasures, or `file:///folder`; without it there is none. `JANITOR_ERASABLE`: the columns that
 *   `defineErasable` takes, as JSON
 * - `SEALING_VAULT` and `SEALING_KEY_ARN`: the vault whose keys are rotated, and the KMS key that wraps them; neither: no keys are
 *   looked at. `SEALING_BRANCH_DAYS` (90) and `SEALING_INDEX_DAYS` (365): how old branch and index keys become. `JANITOR_INDEXES`: blind indexes with their
 *   columns, as JSON that `declaredIndexes` takes
 * - `JANITOR_MAX_SECONDS` (240), and `JANITOR_REST` (1): rest after each page, as a multiple of the time that it took
 *
 * @throws JanitorConfigError (`JANITOR_CONFIG`) naming the variable
 */
export function janitorConfig(env: Environment): JanitorConfig {
  return {
    outboxSeconds: days('OUTBOX_KEEP_DAYS', env['OUTBOX_KEEP_DAYS'] ?? '14'),
    inboxSeconds: days('INBOX_KEEP_DAYS', env['INBOX_KEEP_DAYS'] ?? '35'),
    also: also(env['JANITOR_ALSO'] ?? '{}'),
    archive: archiveAddress(env['JANITOR_ARCHIVE'] ?? 'none'),
    erasures: erasures(env['SEALING_ERASURE_LOG'] ?? '', env['JANITOR_ERASABLE'] ?? '[]'),
    sealing: sealing(env),
    maxSeconds: positive('JANITOR_MAX_SECONDS', env['JANITOR_MAX_SECONDS'] ?? '240'),
    rest: positive('JANITOR_REST', env['JANITOR_REST'] ?? '1'),
  };
}

function days(name: string, value: string): number | undefined {
  return value === 'none' ? undefined : positive(name, value, ' of days, or none') * DAY;
}

function positive(name: string, value: string, what = ''): number {
  const number = Number(value);
  if (value.trim() === '' || !Number.isFinite(number) || number <= 0)
    throw new JanitorConfigError(`${name} must be a positive number${what}.`);
  return number;
}

function also(json: string): JanitorConfig['also'] {
  const form = 'JANITOR_ALSO must be JSON such as {"sample.prune_idempotency": 7}: a function, and days.';
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch {
    throw new JanitorConfigError(form);
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new JanitorConfigError(form);
  return Object.entries(value).map(([name, keepDays]) => {
    if (!/^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$/.test(name) || typeof keepDays !== 'number' || !(keepDays > 0)) {
      throw new JanitorConfigError(form);
    }
    return { name, keepSeconds: keepDays * DAY };
  });
}

function erasures(address: string, json: string): ErasureConfig | undefined {
  if (address === '') return undefined;
  const log = placeOf(address.startsWith('file:') ? address : `s3://${address}`);
  if (log === undefined)
    throw new JanitorConfigError('SEALING_ERASURE_LOG must be the name of a bucket, or file:///folder.');
  try {
    const columns = JSON.parse(json) as ErasableColumns[];
    return { log, erasable: defineErasable(Array.isArray(columns) ? columns : [columns]) };
  } catch (error) {
    const why = error instanceof ErasureError ? error.message : 'JANITOR_ERASABLE must be a JSON array of columns.';
    throw new JanitorConfigError(`JANITOR_ERASABLE: ${why}`);
  }
}

function archiveAddress(value: string): ArchiveAddress | undefined {
  if (value === 'none') return undefined;
  const place = placeOf(value);
  if (place === undefined) throw new JanitorConfigError('JANITOR_ARCHIVE must be none, s3://bucket or file:///folder.');
  return place;
}

function sealing(env: Environment): JanitorSealing | undefined {
  const { SEALING_VAULT: vault = '', SEALING_KEY_ARN: keyArn = '' } = env;
  if (vault === '' && keyArn === '') return undefined;
  if (!/^[a-z][a-z0-9-]{0,62}$/.test(vault)) {
    throw new JanitorConfigError('SEALING_VAULT must be the name of a vault, 1-63 of a-z 0-9 - and a letter first.');
  }
  if (!/^arn:aws[a-z-]*:kms:[a-z0-9-]+:[0-9]{12}:key\/[A-Za-z0-9-]+$/.test(keyArn)) {
    throw new JanitorConfigError('SEALING_KEY_ARN must be the ARN of a KMS key, not an alias or an id.');
  }
  const branchDays = positive('SEALING_BRANCH_DAYS', env['SEALING_BRANCH_DAYS'] ?? '90', ' of days');
  const indexDays = positive('SEALING_INDEX_DAYS', env['SEALING_INDEX_DAYS'] ?? '365', ' of days');
  const indexes = indexesOf(env['JANITOR_INDEXES'] ?? '[]');
  return { vault, keyArn, branchSeconds: branchDays * DAY, indexes, indexSeconds: indexDays * DAY };
}

function indexesOf(json: string): readonly IndexOverColumns[] {
  try {
    return declaredIndexes(JSON.parse(json) as DeclaredIndex[]);
  } catch (error) {
    const why = error instanceof TypeError ? error.message : 'It must be a JSON array of indexes.';
    throw new JanitorConfigError(`JANITOR_INDEXES: ${why}`);
  }
}
