import { randomBytes } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest';
import { ensureLogins, type LoginAuth } from '../../shared/database/index.ts';
import { testDatabase } from '../support/database.ts';

const database = await testDatabase();
// Users belong to the server: other files' are not to be touched.
const user = `login_${randomBytes(6).toString('hex')}`;
const password: LoginAuth = { auth: 'password', password: "it's a \\ password" };
let db: pg.Client;

beforeAll(async () => {
  db = await database.client('sealed_migrator');
});
beforeEach(() => db.query(`drop role if exists ${user}`));
afterAll(() => db.query(`drop role if exists ${user}`));

async function rolesOf(name: string): Promise<string[]> {
  const { rows } = await db.query(
    `select r.rolname as role from pg_auth_members m join pg_roles r on r.oid = m.roleid join pg_roles u on u.oid = m.member
      where u.rolname = $1 order by 1`,
    [name],
  );
  return rows.map((row) => row.role);
}

describe('the users of functions', () => {
  it('are created with exactly the roles that are listed, and can log in', async () => {
    await ensureLogins(db, [{ user, roles: ['outbox_writer', 'sample_api'] }], password);
    expect(await rolesOf(user)).toEqual(['outbox_writer', 'sample_api']);
    const { port } = inject('postgres');
    const login = new pg.Client({
      host: '127.0.0.1',
      port,
      database: database.name,
      user,
      password: password.password,
    });
    await login.connect();
    const { rows } = await login.query(
      'select rolsuper, rolcreaterole, rolcreatedb, rolreplication, rolbypassrls from pg_roles where rolname = current_user',
    );
    await login.end();
    expect(Object.values(rows[0])).toEqual([false, false, false, false, false]);
  });

  it('are held to their number of connections, and lose those that nobody uses', async () => {
    const settings = async () => {
      const { rows } = await db.query(
        'select rolconnlimit as "limit", rolconfig as config from pg_roles where rolname = $1',
        [user],
      );
      return rows[0];
    };
    await ensureLogins(db, [{ user, roles: [], connections: 40 }], password);
    expect(await settings()).toEqual({ limit: 40, config: ['idle_session_timeout=2min'] });
    await ensureLogins(db, [{ user, roles: [] }], password);
    expect(await settings()).toMatchObject({ limit: -1 });
  });

  it('stay as they are when nothing changed', async () => {
    const logins = [{ user, roles: ['outbox_relay'] }];
    await ensureLogins(db, logins, password);
    await ensureLogins(db, logins, password);
    expect(await rolesOf(user)).toEqual(['outbox_relay']);
  });

  it('lose what is no longer listed, and get what is new', async () => {
    await ensureLogins(db, [{ user, roles: ['outbox_writer', 'outbox_monitor'] }], password);
    await ensureLogins(db, [{ user, roles: ['outbox_monitor', 'inbox_consumer'] }], password);
    expect(await rolesOf(user)).toEqual(['inbox_consumer', 'outbox_monitor']);
    await ensureLogins(db, [{ user, roles: [] }], password);
    expect(await rolesOf(user)).toEqual([]);
  });

  it('keep roles that are none of ours', async () => {
    const foreign = `${user}_team`;
    await db.query(`create role ${foreign}`);
    try {
      await ensureLogins(db, [{ user, roles: ['outbox_relay'] }], password);
      await db.query(`grant ${foreign} to ${user}`);
      await ensureLogins(db, [{ user, roles: ['outbox_relay'] }], password);
      expect(await rolesOf(user)).toEqual([foreign, 'outbox_relay'].toSorted());
    } finally {
      await db.query(`drop role ${foreign}`);
    }
  });

  it('get IAM tokens for a password on RDS', async () => {
    await db.query('create role rds_iam');
    try {
      await ensureLogins(db, [{ user, roles: ['outbox_relay'] }], { auth: 'iam' });
      expect(await rolesOf(user)).toEqual(['outbox_relay', 'rds_iam']);
    } finally {
      await db.query('drop role rds_iam');
    }
  });

  it.each(['', 'Sealed', 'sealed-api', 'a b', 'x"; drop role sealed_api; --', '1st', 'x'.repeat(64)])(
    'are refused under the name %j, before any is created',
    async (name) => {
      const refused = { code: 'LOGIN_NAME', message: expect.stringContaining(`"${name}"`) };
      await expect(
        ensureLogins(
          db,
          [
            { user, roles: [] },
            { user: name, roles: [] },
          ],
          password,
        ),
      ).rejects.toMatchObject(refused);
      await expect(ensureLogins(db, [{ user, roles: [name] }], password)).rejects.toMatchObject(refused);
      expect((await db.query('select from pg_roles where rolname = $1', [user])).rowCount).toBe(0);
    },
  );
});
