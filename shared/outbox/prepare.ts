import { type CompiledCatalogue, newestVersion, validatorKey } from '../events/index.ts';
import {
  type Keyring,
  KeysNotPreparedError,
  possibleKeys,
  type SealingKeys,
  type SealingPlan,
  type Subject,
} from '../sealing/index.ts';

/**
 * Loads what events of these types can need about these persons. Without marks there is nothing to load.
 *
 * @throws KeysNotPreparedError (`KEYS_NOT_PREPARED`) where there are marks and no keyring; what `Keyring.keysToSeal` throws
 */
export async function prepareKeys(
  catalogue: CompiledCatalogue,
  keyring: Keyring | undefined,
  subjects: readonly Subject[],
  types: readonly string[] = Object.keys(catalogue.events),
): Promise<SealingKeys> {
  const needed = possibleKeys(plansOf(catalogue, types), subjects);
  if (needed.length === 0) return () => undefined;
  if (keyring === undefined) {
    throw new KeysNotPreparedError(
      'The catalogue marks personal data, and the outbox was made without a keyring: pass one to createOutbox(). No key was loaded.',
    );
  }
  return keyring.keysToSeal(needed);
}

/** Writers write the newest version. */
function plansOf(catalogue: CompiledCatalogue, types: readonly string[]): SealingPlan[] {
  return types.flatMap((type) => {
    const event = catalogue.events[type];
    const sealed = event && catalogue.sealed.get(validatorKey(type, newestVersion(event)));
    return sealed === undefined ? [] : [sealed.plan];
  });
}
