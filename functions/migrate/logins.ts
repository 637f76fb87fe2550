import { isLogin, type Login } from '../../shared/database/index.ts';
import { SealedOutboxError } from '../../shared/errors/index.ts';
import { isVaultAccess, type VaultAccess } from '../../shared/sealing/index.ts';

/** A login, and the classes of sealed data that it gets in the vault: exactly these, and none where nothing is said. */
export interface FunctionLogin extends Login {
  readonly vault?: VaultAccess;
}

/**
 * The variable `DATABASE_LOGINS`: `[{"user":"sealed_api","roles":["outbox_writer","vault_writer"],"connections":4,"vault":{"reads":["tax"],"creates":["contact"]}}]`.
 *
 * @throws SealedOutboxError `LOGINS_SETTING` when it is missing or has another shape
 */
export function loginsFrom(variable: string | undefined): readonly FunctionLogin[] {
  let value: unknown;
  try {
    value = JSON.parse(variable ?? '');
  } catch {
    value = undefined;
  }
  if (!Array.isArray(value) || !value.every(isFunctionLogin)) {
    throw new SealedOutboxError(
      'LOGINS_SETTING',
      'DATABASE_LOGINS must be a JSON list of {"user", "roles", "connections"?, "vault"?}: nothing was migrated. The deployment writes it.',
    );
  }
  return value;
}

function isFunctionLogin(value: unknown): value is FunctionLogin {
  if (!isLogin(value)) return false;
  const { vault } = value as Login & { readonly vault?: unknown };
  return vault === undefined || isVaultAccess(vault);
}
