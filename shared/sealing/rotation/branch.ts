import { secretKey } from '../keyring/kms-cache.ts';
import { branchContext, type Kms } from '../keyring/kms.ts';
import { SealingError } from '../errors.ts';
import type { KeyObject } from 'node:crypto';
import type { BranchState, RotationVault } from './rotation-vault.ts';

/** A vault and the key management service that its branch keys are wrapped by. */
export interface RotationPorts {
  /** Name of the vault, as the keyrings have it: it is bound to every key. */
  readonly name: string;
  readonly vault: RotationVault;
  readonly kms: Kms;
}

/**
 * Makes the next branch key of a class the active one: new keys of persons are wrapped with it, those that are there stay as they are.
 *
 * @returns false where another process has done it already
 * @throws SealingError what `Kms.generate` and the vault reject with; nothing was changed
 */
export async function rotateBranchKey({ name, vault, kms }: RotationPorts, active: BranchState): Promise<boolean> {
  const { plaintext, ...key } = await kms.generate(branchContext(name, active.class, active.version + 1));
  plaintext.fill(0);
  return vault.succeedBranch(active, key);
}

/**
 * Wraps a branch key with the KMS key of today. The key stays the same, and so does all that it wraps.
 *
 * @returns false where it was changed meanwhile
 * @throws SealingError what `Kms` and the vault reject with; nothing was changed
 */
export async function moveBranchKey({ name, vault, kms }: RotationPorts, branch: BranchState): Promise<boolean> {
  const context = branchContext(name, branch.class, branch.version);
  const plaintext = await kms.unwrap(branch, context);
  const key = await kms.wrap(plaintext, context);
  // The old wrapping goes only when the new one is known to open.
  const again = await kms.unwrap(key, context);
  const isSame = Buffer.compare(plaintext, again) === 0;
  plaintext.fill(0);
  again.fill(0);
  if (!isSame) {
    throw new SealingError(
      'SEALING_TAMPERED',
      `KMS did not give branch key ${branch.class} ${branch.version} back as it was wrapped anew. The old wrapping stays.`,
    );
  }
  return vault.rewrapBranch(branch, key);
}

/** @throws SealingError what `Kms.unwrap` rejects with */
export async function openBranch(
  { name, kms }: Pick<RotationPorts, 'name' | 'kms'>,
  branch: BranchState,
): Promise<KeyObject> {
  return secretKey(await kms.unwrap(branch, branchContext(name, branch.class, branch.version)));
}
