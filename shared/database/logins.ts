import pg from 'pg';
import { SealedOutboxError } from '../errors/index.ts';
import type { Queryable } from './queryable.ts';

/** A user that a function connects as, and the roles whose rights it has. */
export interface Login {
  readonly user: string;
  readonly roles: readonly string[];
  /** Most connections at once, of all its sandboxes together: the server refuses more (53300). Default: no limit of its own. */
  readonly connections?: number;
}

/** Whether a value has the form of a login; not whether its names are names. */
export function isLogin(value: unknown): value is Login {
  if (typeof value !== 'object' || value === null) return false;
  const { user, roles, connections } = value as Record<string, unknown>;
  const limited = connections === undefined || (Number.isInteger(connections) && Number(connections) >= 1);
  return limited && typeof user === 'string' && Array.isArray(roles) && roles.every((role) => typeof role === 'string');
}

/** How logins prove who they are: RDS's IAM tokens, or (on this machine only) a password that they share. */
export type LoginAuth = { readonly auth: 'iam' } | { readonly auth: 'password'; readonly password: string };

const NAME = /^[a-z][a-z0-9_]{0,62}$/;

/**
 * A sandbox that is frozen keeps its connections, and one that is never thawed gives them back only when Lambda ends it: the server ends them
 * earlier, so that they do not count against the limit for long. Whoever is thawed later asks first (`revalidate`).
 */
const IDLE_SESSION_TIMEOUT = '2min';

/**
 * Creates the users that are missing and gives each exactly its roles: memberships of `outbox_*`, `inbox_*`, `vault_*` and `sample_*` roles
 * that are not listed are revoked, and its number of connections is limited. Safe to repeat. Runs as a user that may create roles.
 *
 * @throws SealedOutboxError `LOGIN_NAME` for a name that is not lower-case letters, digits and underscores.
 */
export async function ensureLogins(db: Queryable, logins: readonly Login[], how: LoginAuth): Promise<void> {
  for (const name of logins.flatMap(({ user, roles }) => [user, ...roles])) {
    if (!NAME.test(name)) {
      throw new SealedOutboxError(
        'LOGIN_NAME',
        `"${name}" is no name for a database user: use a-z, 0-9 and _. No user was created or changed.`,
      );
    }
  }
  for (const { user, roles, connections } of logins) {
    const { rowCount } = await db.query('select from pg_roles where rolname = $1', [user]);
    if (rowCount === 0) await db.query(`create role ${user} login`);
    if (how.auth === 'iam') await db.query(`grant rds_iam to ${user}`);
    else await db.query(`alter role ${user} password ${pg.escapeLiteral(how.password)}`);
    await db.query(`alter role ${user} connection limit ${connections === undefined ? -1 : Math.trunc(connections)}`);
    await db.query(`alter role ${user} set idle_session_timeout = '${IDLE_SESSION_TIMEOUT}'`);
    for (const role of roles) await db.query(`grant ${role} to ${user}`);
    const { rows } = await db.query(
      `select granted.rolname as role
         from pg_auth_members m
         join pg_roles granted on granted.oid = m.roleid
         join pg_roles member on member.oid = m.member
        where member.rolname = $1 and granted.rolname ~ '^(outbox|inbox|vault|sample)_' and granted.rolname <> all ($2)`,
      [user, roles],
    );
    for (const { role } of rows) await db.query(`revoke ${role} from ${user}`);
  }
}
