import { type KeyObject, randomBytes } from 'node:crypto';
import type { Random } from '../cipher.ts';
import { SealingError } from '../errors.ts';
import { unwrapSubjectKey, wrapSubjectKey } from '../wrapped-key.ts';
import { openBranch, type RotationPorts } from './branch.ts';
import type { Pace } from './pace.ts';
import type { BranchState, KeyTable, SubjectPage, WrappedSubject } from './rotation-vault.ts';

export interface Rewrapping {
  readonly rewrapped: number;
  /** Keys that did not open with the branch key that they name. They stay as they are, and so does that branch key. */
  readonly broken: number;
  /** Whether all keys were looked at. Else the next run starts again: what is done is passed over. */
  readonly ended: boolean;
}

/**
 * Wraps what is wrapped with `from` under `to`, page after page, until all keys of the class were looked at or the time is over. It can be left and
 * begun anew at any moment. What was added to pages that it has passed is for the next run.
 *
 * @throws SealingError what `Kms.unwrap` and the vault reject with; what was done stays
 */
export async function rewrapSubjects(
  ports: RotationPorts,
  from: BranchState,
  to: BranchState,
  pace: Pace,
  random: Random = randomBytes,
): Promise<Rewrapping> {
  const keys = await Promise.all([openBranch(ports, from), openBranch(ports, to)]);
  let rewrapped = 0;
  let broken = 0;
  const tables: KeyTable[] = ['subject_key', 'restricted_key'];
  let table = tables.shift();
  let last: SubjectPage['last'] = null;
  while (table !== undefined) {
    const startedAt = pace.clock.monotonic();
    const page: SubjectPage = await ports.vault.page(table, from, last, pace.page);
    const anew = page.rows.flatMap((row) => rewrapOne(ports.name, row, keys, to.version, random) ?? []);
    broken += page.rows.length - anew.length;
    rewrapped += await ports.vault.rewrapSubjects(table, anew, to.version);
    ({ last } = page);
    if (last === null) table = tables.shift();
    if (table === undefined) break;
    await pace.rest(startedAt, () => ({ class: from.class, from: from.version, to: to.version, rewrapped, broken }));
    if (pace.isOver()) return { rewrapped, broken, ended: false };
  }
  return { rewrapped, broken, ended: true };
}

function rewrapOne(
  vault: string,
  row: WrappedSubject,
  [from, to]: readonly KeyObject[],
  branchVersion: number,
  random: Random,
): [[WrappedSubject, Uint8Array]] | null {
  if (from === undefined || to === undefined) throw new TypeError('Two branch keys are needed.');
  const context = { vault, subject: row.subject };
  try {
    const key = unwrapSubjectKey(from, row.wrapped, row, { ...context, branchVersion: row.branchVersion });
    return [[row, wrapSubjectKey(to, key, { ...context, branchVersion }, random)]];
  } catch (error) {
    if (error instanceof SealingError) return null;
    throw error;
  }
}
