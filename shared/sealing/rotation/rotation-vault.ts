import type { WrappedKey } from '../keyring/kms.ts';
import type { SubjectRow } from '../keyring/vault.ts';
import type { KeyName } from '../sealed-text.ts';
import type { Subject } from '../wrapped-key.ts';

/** A branch key as rotation sees it. Ages are by the vault's clock. */
export interface BranchState extends WrappedKey {
  readonly class: string;
  readonly version: number;
  readonly active: boolean;
  /** Since it was made. Seconds. */
  readonly age: number;
  /** Since another took its place. Seconds; null: none has. */
  readonly retiredFor: number | null;
}

/** A person's key that still has its bytes. */
export interface WrappedSubject extends SubjectRow {
  readonly wrapped: Uint8Array;
}

/** Where keys of persons are: those that readers get, and those that are only kept because they must be. */
export type KeyTable = 'subject_key' | 'restricted_key';

/** Some keys of a class, in the order of their names. */
export interface SubjectPage {
  /** Those of them that are wrapped with the branch key that was asked for. */
  readonly rows: readonly WrappedSubject[];
  /** Where the next page begins; null: this was the last. */
  readonly last: Pick<KeyName, 'keyId' | 'version'> | null;
}

export interface CanaryRow {
  readonly class: string;
  /** A sealed text; null: none was made yet. */
  readonly value: string | null;
  /** Since it was last opened, or made. Seconds; null: none was made yet. */
  readonly age: number | null;
  /** Whether it was ever opened. */
  readonly opened: boolean;
}

/**
 * What rotation needs of a vault, in the classes of its login. Each call is one short transaction, committed when it resolves; each that changes something
 * does so only where what it knows still holds, and answers whether it did.
 *
 * All reject with a SealingError: `SEALING_DENIED`, `SEALING_UNAVAILABLE`.
 */
export interface RotationVault {
  /** All branch keys that are not destroyed. */
  branches(): Promise<readonly BranchState[]>;
  /** Retires the active branch key, and makes `key` the active one under the next version. */
  succeedBranch(active: Pick<BranchState, 'class' | 'version'>, key: WrappedKey): Promise<boolean>;
  /** Puts the same branch key, wrapped anew, in the place of the old wrapping. */
  rewrapBranch(old: BranchState, key: WrappedKey): Promise<boolean>;
  /** Destroys a branch key that was retired over an hour ago and wraps nothing any more. */
  destroyBranch(branch: Pick<BranchState, 'class' | 'version'>): Promise<boolean>;

  /** At most `size` keys of the class after `after`, whatever they are wrapped with: so a call takes no longer the fewer there are. */
  page(
    table: KeyTable,
    branch: Pick<BranchState, 'class' | 'version'>,
    after: SubjectPage['last'],
    size: number,
  ): Promise<SubjectPage>;
  /**
   * Puts keys, wrapped anew under the branch key `to`, in the places of their old wrappings. Passes over those that were erased or changed, and those that
   * somebody else is at.
   *
   * @returns how many were replaced
   */
  rewrapSubjects(
    table: KeyTable,
    rows: readonly (readonly [old: WrappedSubject, wrapped: Uint8Array])[],
    to: number,
  ): Promise<number>;
  /** The newest key of a person; null: there is none. */
  newestSubject(className: string, subject: Subject): Promise<SubjectRow | null>;
  /** Adds the next version of a person's key, unless the person was erased or another was faster. */
  succeedSubject(row: WrappedSubject): Promise<boolean>;

  /** One for each class in which the login may create. */
  canaries(): Promise<readonly CanaryRow[]>;
  /** Unless there is one. */
  addCanary(className: string, value: string): Promise<void>;
  canaryOpened(className: string): Promise<void>;
}
