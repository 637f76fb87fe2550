import type { ISealingKeys } from './sealing-keys.ts';
import type { KeyUser } from './key-user.ts';

/** The classes of data that a function works with: what it is given in KMS and in the database's vault. */
export interface SealingAccess {
  readonly keys: ISealingKeys;
  /** Classes that it seals: it creates keys of persons, and opens what is of these classes. */
  readonly seals?: readonly string[];
  /** Classes that it opens only. */
  readonly opens?: readonly string[];
  /** Blind indexes whose values it computes: the name of each, and the class that it is over. Who makes the first key of one must seal, too. */
  readonly indexes?: Readonly<Record<string, string>>;
  /** Classes whose keys it rotates, and whose canary values it opens: the janitor. With `indexes` also the keys of those. */
  readonly rotates?: readonly string[];
  /** True: it erases persons, of all classes. */
  readonly erases?: boolean;
  /** True: it finishes erasures that others have asked for, as a `Janitor` does that erases. It needs no key for that. */
  readonly finishes?: boolean;
}

/** As `functions/migrate` gives it to a login by `vault.set_access`. */
export interface VaultClasses {
  readonly reads: readonly string[];
  readonly creates: readonly string[];
  readonly indexes?: Readonly<Record<string, string>>;
}

/**
 * Gives `fn` its classes in KMS.
 *
 * @returns what its login needs in the database for the same classes: roles, and rows of `vault.class_access`
 * @throws RangeError where nothing is declared, or a name is no class
 */
export function giveClasses(
  fn: KeyUser,
  sealing: SealingAccess,
): { readonly roles: readonly string[]; readonly classes: VaultClasses } {
  const { keys, seals = [], rotates = [], erases = false, finishes = false } = sealing;
  const indexes = indexesOf(sealing);
  const indexed = Object.values(indexes);
  // Whoever rotates a class may use its index keys anyway.
  const computes = indexed.filter((name) => !rotates.includes(name));
  const opens = (sealing.opens ?? []).filter((name) => !seals.includes(name));
  const nothing = [opens, seals, indexed, rotates].every((classes) => classes.length === 0) && !erases && !finishes;
  // Also where nothing is declared, which it refuses.
  if (opens.length > 0 || nothing) keys.grantOpen(fn, opens);
  if (seals.length > 0) keys.grantSeal(fn, seals);
  if (computes.length > 0) keys.grantIndex(fn, computes);
  if (rotates.length > 0) keys.grantRotate(fn, rotates);
  if (erases) keys.grantErase(fn);
  else if (finishes) keys.grantFinish(fn);
  const writes = seals.length + rotates.length > 0;
  const roles = [
    ...(opens.length + indexed.length > 0 && !writes ? ['vault_reader'] : []),
    ...(writes ? ['vault_writer'] : []),
    ...(rotates.length > 0 ? ['vault_rotator'] : []),
    ...(rotates.length > 0 && indexed.length > 0 ? ['vault_index_rotator'] : []),
    ...(erases || finishes ? ['vault_eraser'] : []),
  ];
  const creates = [...new Set([...seals, ...rotates])].toSorted();
  const reads = [...new Set(opens)].filter((name) => !creates.includes(name)).toSorted();
  return { roles, classes: { reads, creates, ...(indexed.length > 0 && { indexes }) } };
}

const INDEX = /^[a-z][a-z0-9-]{0,62}$/;

function indexesOf({ keys, indexes = {} }: SealingAccess): Readonly<Record<string, string>> {
  const wrong = Object.keys(indexes).find((name) => !INDEX.test(name));
  if (wrong === undefined) return indexes;
  throw new RangeError(
    `${keys.node.path}: "${wrong}" is no name of a blind index. Use 1-63 of a-z 0-9 -, with a letter first.`,
  );
}
