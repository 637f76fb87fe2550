import type { KeyObject } from 'node:crypto';
import { ageOf, type KeyringClock, MINUTE, type Moment, momentOf } from './age.ts';
import { createKmsCache, secretKey } from './kms-cache.ts';
import { branchContext, type Kms } from './kms.ts';
import type { BranchRow, Vault } from './vault.ts';

/** Longer than anybody takes from a read of the vault to what follows from it. Not for good: a restored backup may be of before the class. */
const FIRST_MS = MINUTE;

/** Unwrapped branch keys of one vault. */
export interface BranchKeys {
  /** @throws SealingError what `Kms.unwrap` rejects with */
  open(row: BranchRow): Promise<KeyObject>;
  /** Makes the first branch key of a class, and answers the one that stands: another process may have been faster. */
  createFirst(className: string): Promise<BranchRow>;
}

export function createBranchKeys(name: string, kms: Kms, vault: Vault, clock: KeyringClock): BranchKeys {
  const cache = createKmsCache(kms, clock);
  const firsts = new Map<string, { readonly row: Promise<BranchRow>; readonly askedAt: Moment }>();

  return {
    open(row) {
      return cache.open(idOf(row.class, row.version), row, branchContext(name, row.class, row.version));
    },

    createFirst(className) {
      const create = async (): Promise<BranchRow> => {
        const askedAt = momentOf(clock);
        const version = 1;
        const { plaintext, kmsKey, wrapped } = await kms.generate(branchContext(name, className, version));
        const secret = secretKey(plaintext);
        const standing = await vault.createBranch({ class: className, version, active: true, kmsKey, wrapped });
        const isOurs = standing.version === version && Buffer.compare(standing.wrapped, wrapped) === 0;
        if (isOurs) cache.keep(idOf(className, version), { secret, wrapped, askedAt });
        return standing;
      };
      // Kept: whoever has read the vault before and comes after it must not make another.
      const known = firsts.get(className);
      if (known !== undefined && ageOf(clock, known.askedAt) < FIRST_MS) return known.row;
      const first = { row: create(), askedAt: momentOf(clock) };
      firsts.set(className, first);
      first.row.catch(() => {
        if (firsts.get(className) === first) firsts.delete(className);
      });
      return first.row;
    },
  };
}

function idOf(className: string, version: number): string {
  return `${className} ${version}`;
}
