import type { KeyObject } from 'node:crypto';
import { type KeyringClock, momentOf } from './age.ts';
import { createKmsCache, secretKey } from './kms-cache.ts';
import { branchContext, type Kms } from './kms.ts';
import type { BranchRow, Vault } from './vault.ts';

/** Unwrapped branch keys of one vault. */
export interface BranchKeys {
  /** @throws SealingError what `Kms.unwrap` rejects with */
  open(row: BranchRow): Promise<KeyObject>;
  /** Makes the first branch key of a class, and answers the one that stands: another process may have been faster. */
  createFirst(className: string): Promise<BranchRow>;
}

export function createBranchKeys(name: string, kms: Kms, vault: Vault, clock: KeyringClock): BranchKeys {
  const cache = createKmsCache(kms, clock);
  const firsts = new Map<string, Promise<BranchRow>>();

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
      const first = firsts.get(className) ?? create();
      firsts.set(className, first);
      first.catch(() => firsts.delete(className));
      return first;
    },
  };
}

function idOf(className: string, version: number): string {
  return `${className} ${version}`;
}
