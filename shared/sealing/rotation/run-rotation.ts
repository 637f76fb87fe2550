import { randomBytes } from 'node:crypto';
import type { Metrics } from '../../telemetry/index.ts';
import type { Random } from '../cipher.ts';
import { SealingError } from '../errors.ts';
import { isSameKmsKey } from '../keyring/kms-key-arn.ts';
import { moveBranchKey, rotateBranchKey } from './branch.ts';
import { type CanaryPorts, isCanaryDue, openCanary } from './canary.ts';
import { type PaceOptions, paceOf } from './pace.ts';
import { rewrapSubjects } from './rewrap.ts';
import type { BranchState } from './rotation-vault.ts';

export interface RotationOptions extends CanaryPorts, PaceOptions {
  /** ARN of the KMS key of today: branch keys that another one has wrapped are wrapped anew by it. */
  readonly kmsKey: string;
  /** How old a branch key becomes before another takes its place. Seconds; default: 90 days. */
  readonly branchSeconds?: number;
  /** Classes whose branch key is replaced now, however young it is. */
  readonly now?: readonly string[];
  readonly metrics: Metrics;
  readonly random?: Random;
}

export interface RotationReport {
  /** `class version` of branch keys that were made. */
  readonly rotated: readonly string[];
  /** `class version` of branch keys that were wrapped by another KMS key. */
  readonly moved: readonly string[];
  /** Keys of persons that were wrapped anew. */
  readonly rewrapped: number;
  /** Of those, what did not open and stays as it is. */
  readonly broken: number;
  /** `class version` of branch keys that were destroyed. */
  readonly destroyed: readonly string[];
  /** `class version` of branch keys that are retired and still wrap something, or have not been so for an hour. */
  readonly retired: readonly string[];
  /** Classes whose canary was opened. */
  readonly opened: readonly string[];
  /** Something could not be done; the log says what. */
  readonly failed: boolean;
}

const DAY_S = 86_400;

/**
 * One run of all that keys need now and then, in the classes of the login: opens canaries, replaces branch keys that are old, wraps by the KMS key of today,
 * wraps persons' keys anew, destroys what wraps nothing any more. Where there is nothing to do it reads two small tables. It can be ended at any moment, and two
 * may run at once: the next one goes on. What fails in one class is logged with its code and stops no other.
 *
 * Metrics: `CanaryFailed`, `KeysRewrapped` (Count); `CanaryAge`, `BranchKeyAge`, `RewrapLag` (Seconds), each of the worst class.
 *
 * @throws SealingError `SEALING_DENIED`, `SEALING_UNAVAILABLE`: the vault could not be read; nothing was done
 */
export async function runRotation(options: RotationOptions): Promise<RotationReport> {
  const { vault, kmsKey, branchSeconds = 90 * DAY_S, now = [], log, metrics, random = randomBytes } = options;
  const report = { rotated: [] as string[], moved: [] as string[], destroyed: [] as string[], opened: [] as string[] };
  let failures = 0;
  const attempt = async <T>(what: string, branch: string, work: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await work();
    } catch (error) {
      failures += 1;
      const { name, code } = error as Error & { code?: string };
      log.error(`${what} failed; nothing of it was half done, and the next run tries again`, {
        key: branch,
        error: { name, code },
      });
      return undefined;
    }
  };

  let branches = await vault.branches();
  for (const active of branches.filter((branch) => branch.active)) {
    if (active.age < branchSeconds && !now.includes(active.class)) continue;
    const isRotated = await attempt('replacing a branch key', nameOf(active), () => rotateBranchKey(options, active));
    if (isRotated === true) report.rotated.push(`${active.class} ${active.version + 1}`);
  }
  for (const className of now) {
    if (branches.some((branch) => branch.class === className)) continue;
    await attempt('replacing a branch key', className, () => Promise.reject(noBranch(className)));
  }
  for (const branch of branches.filter((it) => !isSameKmsKey(it.kmsKey, kmsKey))) {
    const isMoved = await attempt('wrapping a branch key by another KMS key', nameOf(branch), () =>
      moveBranchKey(options, branch),
    );
    if (isMoved === true) report.moved.push(nameOf(branch));
  }

  branches = await vault.branches();
  report.opened.push(...(await openCanaries(options, branches, attempt, random)));

  // The canary of a class may just have made its first branch key.
  branches = await vault.branches();
  const retired = branches.filter((branch) => !branch.active);
  let rewrapped = 0;
  let broken = 0;
  const deadline = options.clock.monotonic() + options.budgetMs;
  for (const [index, from] of retired.entries()) {
    const to = branches.find((branch) => branch.active && branch.class === from.class);
    if (to === undefined) continue;
    const share = (deadline - options.clock.monotonic()) / (retired.length - index);
    const pace = paceOf({ ...options, budgetMs: share });
    const done = await attempt('wrapping keys of persons anew', nameOf(from), () =>
      rewrapSubjects(options, from, to, pace, random),
    );
    rewrapped += done?.rewrapped ?? 0;
    broken += done?.broken ?? 0;
    if (done !== undefined && done.broken > 0) {
      await attempt('unwrapping keys of persons', nameOf(from), () => Promise.reject(brokenKeys(from, done.broken)));
    }
    if (done?.ended !== true) continue;
    const isGone = await attempt('destroying a branch key', nameOf(from), () => vault.destroyBranch(from));
    if (isGone === true) report.destroyed.push(nameOf(from));
  }

  const left = retired.filter((branch) => !report.destroyed.includes(nameOf(branch)));
  metrics.add('KeysRewrapped', 'Count', rewrapped);
  metrics.add('RewrapLag', 'Seconds', Math.max(0, ...left.map((branch) => branch.retiredFor ?? 0)));
  metrics.add('BranchKeyAge', 'Seconds', Math.max(0, ...branches.filter((it) => it.active).map((it) => it.age)));
  return { ...report, rewrapped, broken, retired: left.map(nameOf), failed: failures > 0 };
}

async function openCanaries(
  options: RotationOptions,
  branches: readonly BranchState[],
  attempt: <T>(what: string, branch: string, work: () => Promise<T>) => Promise<T | undefined>,
  random: Random,
): Promise<string[]> {
  const opened: string[] = [];
  let failed = 0;
  for (const canary of (await options.vault.canaries()).filter(isCanaryDue)) {
    const isOpen = await attempt('opening a canary', canary.class, async () => {
      await openCanary(options, canary, branches, random);
      return true;
    });
    if (isOpen === true) opened.push(canary.class);
    else failed += 1;
  }
  const ages = (await options.vault.canaries()).map(({ age }) => age ?? 0);
  options.metrics.add('CanaryFailed', 'Count', failed);
  options.metrics.add('CanaryAge', 'Seconds', Math.max(0, ...ages));
  return opened;
}

function nameOf({ class: className, version }: BranchState): string {
  return `${className} ${version}`;
}

function noBranch(className: string): SealingError {
  return new SealingError('SEALING_KEY_UNKNOWN', `Class '${className}' has no branch key that this login may replace.`);
}

function brokenKeys(from: BranchState, count: number): SealingError {
  return new SealingError('SEALING_TAMPERED', `${count} keys of persons do not open with branch key ${nameOf(from)}.`);
}
