import type { WrappedKey } from '../keyring/kms.ts';
import type { BlindIndex } from './blind-value.ts';

/** `next` is searched for and not yet written, `active` is written, `retired` is searched for until its values are gone. */
export type IndexKeyState = 'next' | 'active' | 'retired';

/** A key of an index as the vault keeps it. */
export interface IndexKeyRow extends WrappedKey {
  /** Of the index. */
  readonly name: string;
  readonly version: number;
  readonly state: IndexKeyState;
}

export interface IndexVaultAnswer {
  /** The indexes that this login may use, of those that were asked for. */
  readonly granted: readonly Pick<BlindIndex, 'name' | 'class'>[];
  /** Their keys that live. */
  readonly keys: readonly IndexKeyRow[];
}

/**
 * Where wrapped keys of indexes are kept. Whatever it does is committed when it resolves, and never part of a caller's transaction.
 *
 * All reject with a SealingError: `SEALING_DENIED`, `SEALING_UNAVAILABLE`.
 */
export interface IndexVault {
  /** One round trip, whatever it asks for. */
  readIndexKeys(names: readonly string[]): Promise<IndexVaultAnswer>;
  /** Adds the first key of an index, unless another was faster. @returns the active one */
  createIndexKey(key: WrappedKey & { readonly name: string }): Promise<IndexKeyRow>;
}
