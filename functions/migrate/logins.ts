import type { Login } from '../../shared/database/index.ts';
import { SealedOutboxError } from '../../shared/errors/index.ts';

/**
 * The variable `DATABASE_LOGINS`: `[{"user":"sealed_relay","roles":["outbox_relay"],"connections":4}]`.
 *
 * @throws SealedOutboxError `LOGINS_SETTING` when it is missing or has another shape
 */
export function loginsFrom(variable: string | undefined): readonly Login[] {
  let value: unknown;
  try {
    value = JSON.parse(variable ?? '');
  } catch {
    value = undefined;
  }
  if (!Array.isArray(value) || !value.every(isLogin)) {
    throw new SealedOutboxError(
      'LOGINS_SETTING',
      'DATABASE_LOGINS must be a JSON list of {"user", "roles", "connections"?}: nothing was migrated. The deployment writes it.',
    );
  }
  return value;
}

function isLogin(value: unknown): value is Login {
  if (typeof value !== 'object' || value === null) return false;
  const { user, roles, connections } = value as Record<string, unknown>;
  const limited = connections === undefined || (Number.isInteger(connections) && Number(connections) >= 1);
  return limited && typeof user === 'string' && Array.isArray(roles) && roles.every((role) => typeof role === 'string');
}
