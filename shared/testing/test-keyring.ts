import {
  type BranchRow,
  createKeyring,
  type Keyring,
  type KeyName,
  type Kms,
  type KmsContext,
  type NeededKey,
  SealingError,
  type Subject,
  type SubjectRow,
  type Vault,
} from '../sealing/index.ts';

/** Keys of persons in memory. For tests only: what wraps them here protects nothing. */
export interface TestKeyring extends Keyring {
  /** From now on nobody opens what is of this person, in a keyring that has not loaded it. */
  erase(subject: Subject): void;
  /** The keyring of another process: the same keys, nothing loaded. */
  another(): Keyring;
}

/**
 * A keyring for tests. It makes keys as they are needed; sealing, opening and erasing work as with the real one.
 *
 * @param classes that this reader may open and seal. Default: every class that is asked for.
 */
export function testKeyring({ classes }: { readonly classes?: readonly string[] } = {}): TestKeyring {
  const branches: BranchRow[] = [];
  const subjects: SubjectRow[] = [];
  const newest = (needed: NeededKey): SubjectRow | undefined =>
    subjects.findLast((row) => row.class === needed.class && isSame(row.subject, needed.subject));
  const vault: Vault = {
    read: async (persons, names) => {
      const asked = [...new Set([...persons, ...names].map((key) => key.class))];
      const allowed = classes === undefined ? asked : asked.filter((name) => classes.includes(name));
      const found = [...persons.map(newest), ...names.map((name) => named(subjects, name))];
      return {
        classes: allowed,
        branches: branches.filter((row) => allowed.includes(row.class)),
        subjects: found.filter((row) => row !== undefined && allowed.includes(row.class)) as SubjectRow[],
      };
    },
    createSubjects: async (rows) => {
      const added = rows.filter((row) => newest(row) === undefined);
      subjects.push(...added);
      return added.map(({ keyId }) => keyId);
    },
    createBranch: async (row) => {
      const standing = branches.find((it) => it.class === row.class && it.active);
      if (standing === undefined) branches.push(row);
      return standing ?? row;
    },
  };
  const kms = memoryKms();
  const another = (): Keyring => createKeyring({ name: 'test', vault, kms });
  return {
    ...another(),
    another,
    erase(subject) {
      for (const [index, row] of subjects.entries()) {
        if (isSame(row.subject, subject)) subjects[index] = { ...row, wrapped: null };
      }
    },
  };
}

function isSame(one: Subject, other: Subject): boolean {
  return one.kind === other.kind && one.id.toLowerCase() === other.id.toLowerCase();
}

function named(rows: readonly SubjectRow[], name: KeyName): SubjectRow | undefined {
  return rows.find((row) => row.class === name.class && row.keyId === name.keyId && row.version === name.version);
}

/** Wraps nothing: it remembers which key belongs to which context. */
function memoryKms(): Kms {
  const kept: { readonly plaintext: Uint8Array; readonly context: string }[] = [];
  const wrap = (plaintext: Uint8Array, context: KmsContext) => {
    kept.push({ plaintext: Uint8Array.from(plaintext), context: JSON.stringify(context) });
    return { kmsKey: 'test', wrapped: Buffer.from(String(kept.length - 1)) };
  };
  return {
    generate: async (context) => {
      const plaintext = crypto.getRandomValues(new Uint8Array(32));
      return { plaintext, ...wrap(plaintext, context) };
    },
    wrap: async (plaintext, context) => wrap(plaintext, context),
    unwrap: async ({ wrapped }, context) => {
      const found = kept[Number(Buffer.from(wrapped).toString())];
      if (found === undefined || found.context !== JSON.stringify(context)) {
        throw new SealingError('SEALING_TAMPERED', 'The key was wrapped for something else.');
      }
      return Uint8Array.from(found.plaintext);
    },
  };
}
