import type { NeededKey } from '../seal-data.ts';
import type { KeyName } from '../sealed-text.ts';
import type { Subject } from '../wrapped-key.ts';
import type { WrappedKey } from './kms.ts';

/** A branch key as the vault keeps it. */
export interface BranchRow extends WrappedKey {
  readonly class: string;
  readonly version: number;
  /** Wraps new keys; others only open. */
  readonly active: boolean;
}

/** A person's key as the vault keeps it. */
export interface SubjectRow extends KeyName {
  readonly subject: Subject;
  /** 0 for a key that never had bytes. */
  readonly branchVersion: number;
  /** Null: the person was erased. */
  readonly wrapped: Uint8Array | null;
}

/** What one read of the vault answers. */
export interface VaultAnswer {
  /** The classes that this login may use. Rows of others are not shown. */
  readonly classes: readonly string[];
  /** Of the classes that were asked for. */
  readonly branches: readonly BranchRow[];
  /** The newest key of each person that was asked for, and the keys that were asked for by name; those that exist. */
  readonly subjects: readonly SubjectRow[];
  /** All entries of the log of erasures up to this number are done here. Without it: none. */
  readonly erasedThrough?: number;
}

/**
 * Where wrapped keys are kept. Whatever it does is committed when it resolves, and never part of a caller's transaction.
 *
 * All reject with a SealingError: `SEALING_DENIED`, `SEALING_UNAVAILABLE`.
 */
export interface Vault {
  /** One round trip, whatever it asks for. */
  read(persons: readonly NeededKey[], names: readonly KeyName[]): Promise<VaultAnswer>;
  /**
   * Adds keys of persons that have none for the class. Where another was faster, or the person is erased, that stays.
   *
   * @returns the ids of the keys that were added
   */
  createSubjects(rows: readonly SubjectRow[]): Promise<readonly string[]>;
  /** Adds the first branch key of a class, unless another was faster. @returns the active one */
  createBranch(row: BranchRow): Promise<BranchRow>;
}
