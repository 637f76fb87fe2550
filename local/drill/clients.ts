import {
  createKeyring,
  type ErasureLog,
  type Keyring,
  type KeyName,
  type Kms,
  openValue,
  postgresVault,
  type RowContext,
  sealValue,
  type Vault,
  type VaultPool,
} from '../../shared/sealing/index.ts';

export const VAULT = 'drill';

/** A value that somebody keeps outside the vault: in a table, a queue, an archive. */
export interface Kept {
  readonly person: string;
  readonly key: KeyName;
  readonly text: string;
}

/** Time that the drill moves. */
export interface DrillClock {
  monotonic(): number;
  wall(): number;
  pass(minutes: number): void;
}

export function drillClock(): DrillClock {
  let ms = 0;
  return {
    monotonic: () => ms,
    wall: () => ms,
    pass(minutes) {
      ms += minutes * 60_000;
    },
  };
}

/** A process that seals and opens, with what it keeps in memory. Its database is whichever `pool` says at the moment, as behind a name that moves. */
export function processOn(pool: () => VaultPool, kms: Kms, erasures: ErasureLog, clock: DrillClock): Keyring {
  const now = (): Vault => postgresVault(pool());
  const vault: Vault = {
    read: (...args) => now().read(...args),
    createSubjects: (...args) => now().createSubjects(...args),
    createBranch: (...args) => now().createBranch(...args),
  };
  return createKeyring({ name: VAULT, vault, kms, erasures, clock });
}

const place = (person: string): RowContext => ({
  in: 'row',
  store: 'drill',
  table: 'customer',
  primaryKey: person,
  column: 'name',
});

export async function sealFor(keyring: Keyring, className: string, persons: readonly string[]): Promise<Kept[]> {
  const subjects = persons.map((id) => ({ kind: 'customer', id }));
  const keys = await keyring.keysToSeal(subjects.map((subject) => ({ class: className, subject })));
  return subjects.map((subject) => {
    const key = keys(className, subject);
    if (key === undefined || key === 'erased') throw new Error(`A key is missing: ${key}`);
    const { class: _, keyId, version } = key;
    return {
      person: subject.id,
      key: { class: className, keyId, version },
      text: sealValue(subject.id, key, place(subject.id)),
    };
  });
}

/** How many values open as they were sealed, and how the others end, by code. */
export async function open(
  keyring: Keyring,
  values: readonly Kept[],
): Promise<{ opened: number; closed: Record<string, number> }> {
  const closed: Record<string, number> = {};
  let opened = 0;
  const note = (code: string): void => {
    closed[code] = (closed[code] ?? 0) + 1;
  };
  for (let at = 0; at < values.length; at += 500) {
    const some = values.slice(at, at + 500);
    const keys = await keyring.keysToOpen(some.map(({ key }) => key));
    for (const { person, key, text } of some) {
      try {
        const found = keys(key);
        if (found === undefined) note('SEALING_KEY_UNKNOWN');
        else if (typeof found === 'string') note(found);
        else if (openValue(text, found, place(person)) === person) opened += 1;
        else note('another value');
      } catch (error) {
        note((error as { readonly code?: string }).code ?? 'no code');
      }
    }
  }
  return { opened, closed };
}
