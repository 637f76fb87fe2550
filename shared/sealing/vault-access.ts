import type { Queryable } from '../database/index.ts';

/** What a login may use of the vault. */
export interface VaultAccess {
  /** Classes whose keys it reads. */
  readonly reads: readonly string[];
  /** Classes of which it also creates keys of persons, and the first branch key. */
  readonly creates: readonly string[];
  /** Blind indexes whose values it computes, each with its class. */
  readonly indexes?: Readonly<Record<string, string>>;
}

/**
 * Gives each login exactly the classes and the blind indexes that it declares: one that was given some before and declares them no longer loses
 * them. As the vault's owner.
 */
export async function giveVault(
  client: Queryable,
  logins: readonly { readonly user: string; readonly vault?: VaultAccess }[],
): Promise<void> {
  for (const { user, vault } of logins) {
    await client.query('select vault.set_access($1, $2, $3)', [user, vault?.reads ?? [], vault?.creates ?? []]);
    await client.query('select vault.set_index_access($1, $2)', [user, JSON.stringify(vault?.indexes ?? {})]);
  }
}

export function isVaultAccess(value: unknown): value is VaultAccess {
  if (typeof value !== 'object' || value === null) return false;
  const { reads, creates, indexes = {} } = value as Record<string, unknown>;
  const named = typeof indexes === 'object' && indexes !== null && !Array.isArray(indexes);
  return areNames(reads) && areNames(creates) && named && areNames(Object.values(indexes));
}

function areNames(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((name) => typeof name === 'string');
}
