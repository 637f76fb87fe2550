import type { Queryable } from '../../shared/database/index.ts';
import { systemClock } from '../../shared/outbox/index.ts';
import {
  type Keyring,
  type KeyName,
  openValue,
  postgresRotation,
  postgresVault,
  type RotationOptions,
  type RotationReport,
  runRotation,
  sealValue,
  type VaultPool,
} from '../../shared/sealing/index.ts';
import { noMetrics, silentLog } from '../../shared/telemetry/index.ts';
import { fakeKms } from './keyring.ts';
import { ROW } from './sealing.ts';

export interface SealedValue {
  readonly key: KeyName;
  readonly text: string;
  readonly clear: string;
}

export const person = (className: string, id: string) => ({ class: className, subject: { kind: 'customer', id } });

export async function sealFor(ring: Keyring, className: string, id: string): Promise<SealedValue> {
  const { subject } = person(className, id);
  const key = (await ring.keysToSeal([person(className, id)]))(className, subject);
  if (key === undefined || key === 'erased') throw new Error(`no key: ${key}`);
  return { key, text: sealValue(`of ${id}`, key, ROW), clear: `of ${id}` };
}

/** What does not open as it was sealed, and how it ended instead. */
export async function closed(ring: Keyring, values: readonly SealedValue[]): Promise<string[]> {
  const keys = await ring.keysToOpen(values.map(({ key }) => key));
  return values.flatMap(({ key, text, clear }) => {
    try {
      const found = keys(key);
      if (typeof found !== 'object') return [`${clear}: ${found}`];
      return openValue(text, found, ROW) === clear ? [] : [`${clear}: another value`];
    } catch (error) {
      return [`${clear}: ${(error as { readonly code?: string }).code ?? String(error)}`];
    }
  });
}

/** What rotation needs, on the connections of a login, without rest. */
export function rotationOn(pool: VaultPool & Queryable, more: Partial<RotationOptions> = {}): RotationOptions {
  return {
    name: 'test',
    vault: postgresRotation(pool),
    keys: postgresVault(pool),
    kms: fakeKms(),
    kmsKey: 'kms-key',
    budgetMs: 60_000,
    rest: 0,
    page: 3,
    clock: systemClock,
    log: silentLog,
    metrics: noMetrics,
    ...more,
  };
}

export function rotate(options: RotationOptions, more: Partial<RotationOptions> = {}): Promise<RotationReport> {
  return runRotation({ ...options, ...more });
}

/** Lets two hours pass since branch keys were retired. As the owner. */
export async function ageRetired(owner: Queryable): Promise<void> {
  await owner.query(`update vault.branch_key set retired_at = retired_at - interval '2 hours' where state = 'retired'`);
}

/** `version state` of the branch keys of a class, and how many keys that have their bytes each wraps. */
export async function branchesOf(owner: Queryable, className: string): Promise<string[]> {
  const { rows } = await owner.query(
    `select b.version || ' ' || b.state || ' ' || (select count(*) from vault.subject_key k
                                                     where k.class = b.class and k.branch_version = b.version and k.wrapped is not null) as branch
       from vault.branch_key b where b.class = $1 order by b.version`,
    [className],
  );
  return rows.map(({ branch }) => branch as string);
}

export async function giveClass(owner: Queryable, ...classes: readonly string[]): Promise<void> {
  for (const user of ['sealed_rotator', 'sealed_sealer']) {
    await owner.query(`select vault.set_access($1, '{}', $2)`, [user, classes]);
  }
}
