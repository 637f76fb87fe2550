import {
  type BranchRow,
  createKeyring,
  type ErasureLog,
  type Keyring,
  type KeyName,
  type Kms,
  type KmsContext,
  SealingError,
  type SealingErrorCode,
  type SubjectRow,
  type Vault,
} from '../../shared/sealing/index.ts';
import { personKey } from '../../shared/sealing/seal-data.ts';
import { type MovedClock, movedClock } from './moved-clock.ts';

/** A KMS in memory that counts its calls and fails as the test says. */
export interface FakeKms extends Kms {
  readonly calls: { readonly call: 'generate' | 'wrap' | 'unwrap'; readonly context: KmsContext }[];
  /** What it answers to every call from now on; null: it works. */
  failure: SealingErrorCode | null;
  /** Every call waits for it. */
  gate: Promise<void>;
}

export function fakeKms(): FakeKms {
  let made = 0;
  const note = async (call: 'generate' | 'wrap' | 'unwrap', context: KmsContext): Promise<void> => {
    kms.calls.push({ call, context });
    await kms.gate;
    if (kms.failure !== null) throw new SealingError(kms.failure, 'as the test wants it');
  };
  const wrap = (plaintext: Uint8Array, context: KmsContext) => ({
    kmsKey: 'kms-key',
    wrapped: Buffer.from(JSON.stringify([context, Buffer.from(plaintext).toString('hex')])),
  });
  const kms: FakeKms = {
    calls: [],
    failure: null,
    gate: Promise.resolve(),
    async generate(context) {
      await note('generate', context);
      made += 1;
      const plaintext = Buffer.alloc(32, made);
      return { plaintext: Buffer.from(plaintext), ...wrap(plaintext, context) };
    },
    async wrap(plaintext, context) {
      await note('wrap', context);
      return wrap(plaintext, context);
    },
    async unwrap({ wrapped }, context) {
      await note('unwrap', context);
      const [bound, plaintext] = JSON.parse(Buffer.from(wrapped).toString()) as [KmsContext, string];
      if (JSON.stringify(bound) !== JSON.stringify(context)) {
        throw new SealingError('SEALING_TAMPERED', 'another context');
      }
      return Buffer.from(plaintext, 'hex');
    },
  };
  return kms;
}

/** A vault in memory. `view` is what one login sees of it. */
interface FakeVault extends Vault {
  readonly branches: BranchRow[];
  readonly subjects: SubjectRow[];
  reads: number;
  /** How far the log of erasures is done here. */
  erasedThrough: number;
  failure: SealingErrorCode | null;
  /** Runs before anything is created. */
  beforeCreate: () => Promise<void>;
  view(...classes: readonly string[]): Vault;
  erase(subjectId: string): void;
}

function fakeVault(): FakeVault {
  const fail = (): void => {
    if (vault.failure !== null) throw new SealingError(vault.failure, 'as the test wants it');
  };
  const view = (classes: readonly string[]): Vault => ({
    async read(persons, names) {
      vault.reads += 1;
      await Promise.resolve();
      fail();
      const asked = new Set([...persons, ...names].map((it) => it.class).filter((it) => classes.includes(it)));
      const newest = newestKeys(vault.subjects);
      const ofPersons = persons.flatMap((person) => newest.get(personKey(person)) ?? []);
      const byName = new Map(vault.subjects.map((row) => [nameOf(row), row]));
      const named = names.flatMap((name) => byName.get(nameOf(name)) ?? []);
      return {
        classes,
        branches: vault.branches.filter((row) => asked.has(row.class)),
        subjects: [...ofPersons, ...named].filter((row) => asked.has(row.class)),
        erasedThrough: vault.erasedThrough,
      };
    },
    async createSubjects(rows) {
      await vault.beforeCreate();
      fail();
      const before = newestKeys(vault.subjects);
      const added = rows.filter((row) => !before.has(personKey(row)));
      vault.subjects.push(...added);
      return added.map((row) => row.keyId);
    },
    async createBranch(row) {
      await vault.beforeCreate();
      fail();
      const standing = vault.branches.find((it) => it.class === row.class && it.active);
      if (standing === undefined) vault.branches.push(row);
      return standing ?? row;
    },
  });
  const vault: FakeVault = {
    branches: [],
    subjects: [],
    reads: 0,
    erasedThrough: 0,
    failure: null,
    beforeCreate: () => Promise.resolve(),
    view: (...classes) => view(classes),
    erase(subjectId) {
      for (const [index, row] of vault.subjects.entries()) {
        if (row.subject.id === subjectId) vault.subjects[index] = { ...row, wrapped: null };
      }
    },
    ...view(['contact', 'tax']),
  };
  return vault;
}

const nameOf = ({ class: className, keyId, version }: KeyName): string => `${className} ${keyId} ${version}`;

function newestKeys(rows: readonly SubjectRow[]): Map<string, SubjectRow> {
  return new Map(rows.toSorted((a, b) => a.version - b.version).map((row) => [personKey(row), row]));
}

export interface KeyringUnderTest {
  readonly kms: FakeKms;
  readonly vault: FakeVault;
  readonly clock: MovedClock;
  readonly keyring: Keyring;
  /** A keyring of another process, on the same vault and KMS. */
  readonly another: (view?: Vault) => Keyring;
}

export function keyringUnderTest(erasures?: ErasureLog): KeyringUnderTest {
  const kms = fakeKms();
  const vault = fakeVault();
  const clock = movedClock();
  const another = (view: Vault = vault): Keyring =>
    createKeyring({ name: 'test', vault: view, kms, clock, ...(erasures !== undefined && { erasures }) });
  return { kms, vault, clock, another, keyring: another() };
}
