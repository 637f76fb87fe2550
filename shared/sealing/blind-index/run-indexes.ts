import type { Metrics } from '../../telemetry/index.ts';
import { SealingError } from '../errors.ts';
import type { Keyring } from '../keyring/keyring.ts';
import type { Kms } from '../keyring/kms.ts';
import { isSameKmsKey } from '../keyring/kms-key-arn.ts';
import { inVault, type VaultPool } from '../keyring/postgres-vault.ts';
import { type Pace, paceOf, type PaceOptions } from '../rotation/pace.ts';
import { backfillIndex, type Backfilled, hasOlderValues, type IndexedColumn, needsBackfill } from './backfill.ts';
import { type BlindIndex, valuePrefix } from './blind-value.ts';
import type { IndexOverColumns } from './declared-indexes.ts';
import type { IndexKeys } from './index-keys.ts';
import { type IndexRotationStep, rotateIndexKey } from './rotate-index-key.ts';

export interface IndexRunOptions extends PaceOptions {
  /** Name of the vault, as that of the keyring. */
  readonly name: string;
  /**
   * Of a login with the roles `vault_writer` and `vault_index_rotator` that may use the indexes, open their classes, read the columns of sealed values and write
   * those of the index.
   */
  readonly pool: VaultPool;
  readonly kms: Pick<Kms, 'generate'>;
  /** That opens the classes. */
  readonly keyring: Keyring;
  readonly indexKeys: IndexKeys;
  readonly indexes: readonly IndexOverColumns[];
  /** ARN of the KMS key of today: an index key that another one has wrapped is followed by a new one. */
  readonly kmsKey: string;
  /** How old an index key becomes before another takes its place. Seconds; default: 365 days. */
  readonly keySeconds?: number;
  /** Names of indexes whose key is followed by another now, however young it is. */
  readonly now?: readonly string[];
  readonly metrics: Metrics;
}

export interface IndexRunReport {
  /** `name step` of rotations that went on. */
  readonly steps: readonly string[];
  /** Rows that got an index value of today's key. */
  readonly written: number;
  /** Rows that were looked at and stay as they are, by the reason, as `Backfilled.left`. */
  readonly left: Readonly<Record<string, number>>;
  /** Something could not be done; the log says what. */
  readonly failed: boolean;
}

interface Standing {
  readonly version: number;
  readonly kmsKey: string;
  readonly age: number;
  readonly rotatingFor: number;
}

const DAY_S = 86_400;

/**
 * One run of all that blind indexes need now and then: takes rotations of their keys as far as they go now, begins those that are due, and brings columns
 * up to date, a batch at a time. Where there is nothing to do it reads one row and looks twice into the index of each column. It can be ended at any
 * moment, and two may run at once: the next one goes on. What fails with one index is logged with its code and stops no other.
 *
 * Metrics: `IndexRowsWritten`, `IndexRowsClosed` (Count), the latter rows that do not open and keep an old key alive; `IndexKeyAge`, `IndexRotationLag`
 * (Seconds), each of the worst index; without a value where the state of one could not be read.
 */
export async function runIndexes(options: IndexRunOptions): Promise<IndexRunReport> {
  const { indexes, now = [], metrics, log, clock } = options;
  const steps: string[] = [];
  const left: Record<string, number> = {};
  let written = 0;
  const standings: (Standing | undefined)[] = [];
  let failed = false;
  const attempt = async (index: string, work: () => Promise<void>): Promise<void> => {
    try {
      await work();
    } catch (error) {
      failed = true;
      const { name, code } = error as Error & { code?: string };
      log.error('a blind index could not be looked after; nothing of it was half done, and the next run tries again', {
        index,
        error: { name, code },
      });
    }
  };

  const deadline = clock.monotonic() + options.budgetMs;
  for (const [n, one] of indexes.entries()) {
    const { name } = one.index;
    const share = (deadline - clock.monotonic()) / (indexes.length - n);
    const pace = paceOf({ ...options, budgetMs: share }, 'bringing an index up to date');
    await attempt(name, async () => {
      for await (const done of lookedAfter(options, one, pace)) {
        if (done.step !== undefined) steps.push(`${name} ${done.step}`);
        written += done.written ?? 0;
        for (const [reason, count] of Object.entries(done.left ?? {})) left[reason] = (left[reason] ?? 0) + count;
      }
    });
    await attempt(name, async () => {
      standings.push(await standingOf(options.pool, name));
    });
  }
  for (const name of now) {
    if (indexes.some(({ index }) => index.name === name)) continue;
    await attempt(name, () => Promise.reject(unknown(name, 'is not among those that are looked after here')));
  }

  const isClosed = ([reason]: readonly [string, number]): boolean => reason.startsWith('SEALING_');
  const closed = Object.entries(left)
    .filter(isClosed)
    .reduce((sum, [, count]) => sum + count, 0);
  metrics.add('IndexRowsWritten', 'Count', written);
  metrics.add('IndexRowsClosed', 'Count', closed);
  // An index that could not be read may be the worst: no value rather than a wrong one.
  if (standings.length === indexes.length) {
    metrics.add('IndexKeyAge', 'Seconds', Math.max(0, ...standings.map((it) => it?.age ?? 0)));
    metrics.add('IndexRotationLag', 'Seconds', Math.max(0, ...standings.map((it) => it?.rotatingFor ?? 0)));
  }
  if (closed > 0) log.error('rows of an index do not open: they keep what they have, and its old key alive', { left });
  return { steps, written, left, failed: failed || closed > 0 };
}

/** What was done, as it is done: what comes after it may fail. */
interface Done extends Partial<Pick<Backfilled, 'written' | 'left'>> {
  readonly step?: IndexRotationStep;
}

async function* lookedAfter(options: IndexRunOptions, one: IndexOverColumns, pace: Pace): AsyncGenerator<Done> {
  const { pool, log, now = [] } = options;
  const { name } = one.index;
  const standing = await standingOf(pool, name);
  if (standing === undefined && now.includes(name)) throw unknown(name, 'has no key that could be rotated');
  let step = standing && (await rotated(options, one, isDue(options, name, standing)));
  if (step === 'promoted') {
    yield { step };
    step = await rotated(options, one, false);
  }
  const current = step === undefined ? undefined : await standingOf(pool, name);
  for (const column of one.columns) {
    if (!(await needsBackfill(pool, column, current && valuePrefix(current.version, one.index.normaliser.version)))) {
      continue;
    }
    yield* broughtUpToDate(options, one.index, column, pace);
    if (pace.isOver()) {
      log.info('an index may not be up to date yet; the next run goes on', { index: name });
      break;
    }
  }
  if (step === 'backfill' && !pace.isOver()) {
    step = await rotated(options, one, false);
    if (step === 'backfill') log.warn('the old key of an index stays: rows still have values of it', { index: name });
  }
  if (step !== undefined && step !== 'done') yield { step };
}

function isDue(
  { now = [], keySeconds = 365 * DAY_S, kmsKey }: IndexRunOptions,
  name: string,
  standing: Standing,
): boolean {
  return now.includes(name) || standing.age >= keySeconds || !isSameKmsKey(standing.kmsKey, kmsKey);
}

/** One step. */
function rotated(
  { name, pool, kms }: IndexRunOptions,
  { index, columns }: IndexOverColumns,
  begin: boolean,
): Promise<IndexRotationStep> {
  const hasOlder = async (version: number): Promise<boolean> => {
    for (const column of columns) if (await hasOlderValues(pool, column, version)) return true;
    return false;
  };
  return rotateIndexKey({ name, pool, kms, index: index.name, begin, hasOlder });
}

/** @returns undefined: the index has no key yet */
async function standingOf(pool: VaultPool, index: string): Promise<Standing | undefined> {
  const { rows } = await inVault(
    pool.query(
      `select k.version, k.kms_key as "kmsKey", extract(epoch from clock_timestamp() - k.created_at)::float8 as age,
              coalesce((select extract(epoch from clock_timestamp() - min(o.state_since)) from vault.index_key o
                         where o.name = k.name and o.state in ('next', 'retired')), 0)::float8 as "rotatingFor"
         from vault.index_key k
        where k.name = $1 and k.state = 'active'`,
      [index],
    ),
  );
  return rows[0] as Standing | undefined;
}

/** Batch after batch, until all rows were looked at or the time is over. */
async function* broughtUpToDate(
  { pool, keyring, indexKeys }: IndexRunOptions,
  index: BlindIndex,
  column: IndexedColumn,
  pace: Pace,
): AsyncGenerator<Backfilled> {
  let written = 0;
  for (let after: string | null | undefined = null; after !== undefined && !pace.isOver();) {
    const startedAt = pace.clock.monotonic();
    const batch: Backfilled = await backfillIndex({
      pool,
      keyring,
      indexKeys,
      index,
      column,
      after,
      rows: pace.page,
    });
    yield batch;
    written += batch.written;
    after = batch.next ?? undefined;
    await pace.rest(startedAt, () => ({ index: index.name, table: column.table, written }));
  }
}

function unknown(name: string, why: string): SealingError {
  return new SealingError('SEALING_KEY_UNKNOWN', `The index '${name}' ${why}.`);
}
