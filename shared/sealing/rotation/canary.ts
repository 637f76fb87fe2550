import { randomBytes } from 'node:crypto';
import type { RowContext } from '../associated-data.ts';
import type { Random } from '../cipher.ts';
import { SealingError } from '../errors.ts';
import { createKeyring } from '../keyring/keyring.ts';
import type { Vault } from '../keyring/vault.ts';
import { parseSealed } from '../sealed-text.ts';
import { openValue, sealValue } from '../value.ts';
import { openBranch, type RotationPorts } from './branch.ts';
import type { BranchState, CanaryRow } from './rotation-vault.ts';

export interface CanaryPorts extends RotationPorts {
  /** As readers and writers have it. */
  readonly keys: Vault;
}

/** Nobody: so its key is never erased, and is wrapped anew with all others. */
const PERSON = { kind: 'sealed-outbox.canary', id: 'canary' };
const TEXT = 'This value opens.';
const DAY_S = 86_400;

/** Whether the canary of a class is to be made, or to be opened again. */
export function isCanaryDue({ opened, age }: CanaryRow): boolean {
  return !opened || age === null || age >= DAY_S;
}

/**
 * Opens the canary of a class, and unwraps each of its branch keys, with nothing in memory that could hide a loss. Makes the canary where there is none.
 *
 * @throws SealingError why it does not open: what readers of the class meet, or are about to
 */
export async function openCanary(
  ports: CanaryPorts,
  { class: className, value: made }: CanaryRow,
  branches: readonly BranchState[],
  random: Random = randomBytes,
): Promise<void> {
  for (const branch of branches) if (branch.class === className) await openBranch(ports, branch);
  const context = contextOf(ports.name, className);
  const value = made ?? (await makeCanary(ports, className, context, random));
  const name = parseSealed(value)?.key;
  if (name === undefined)
    throw new SealingError('SEALING_MALFORMED', `The canary of class '${className}' is no sealed value.`);
  const keys = await freshKeyring(ports, random).keysToOpen([name]);
  const key = keys(name);
  if (key === 'denied')
    throw new SealingError('SEALING_DENIED', `This login may not open the canary of class '${className}'.`);
  if (key === undefined || key === 'erased') throw lost(className);
  if (openValue(value, key, context) !== TEXT) throw lost(className);
  await ports.vault.canaryOpened(className);
}

async function makeCanary(ports: CanaryPorts, className: string, context: RowContext, random: Random): Promise<string> {
  const keys = await freshKeyring(ports, random).keysToSeal([{ class: className, subject: PERSON }]);
  const key = keys(className, PERSON);
  if (key === undefined || key === 'erased') throw lost(className);
  await ports.vault.addCanary(className, sealValue(TEXT, key, context, random));
  const standing = (await ports.vault.canaries()).find((row) => row.class === className)?.value ?? null;
  if (standing === null) throw lost(className);
  return standing;
}

function freshKeyring({ name, keys, kms }: CanaryPorts, random: Random) {
  return createKeyring({ name, vault: keys, kms, random });
}

function contextOf(vault: string, className: string): RowContext {
  return { in: 'row', store: vault, table: 'vault.canary', primaryKey: className, column: 'value' };
}

function lost(className: string): SealingError {
  return new SealingError(
    'SEALING_KEY_UNKNOWN',
    `The key of the canary of class '${className}' is gone. Keys of persons may be gone with it: see docs/runbooks/vault-restore.md.`,
  );
}
