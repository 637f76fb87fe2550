import type pg from 'pg';
import { beforeAll, describe, expect, it } from 'vitest';
import { createKeyring, postgresVault } from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { fakeKms } from '../../support/keyring.ts';
import { LOGINS, type TestUser } from '../../support/logins.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const clients = new Map<TestUser, pg.Client>();
const kms = fakeKms();
const as = (user: TestUser): pg.Client => clients.get(user)!;
const person = (className: string, id = 'P-1') => ({ class: className, subject: { kind: 'customer', id } });

const FORBIDDEN = '42501';
const OF_INDEXES = ['blind_index', 'index_access', 'index_key'];
const TABLES = ['class_access', 'branch_key', 'subject_key', ...OF_INDEXES, 'erasure', 'canary'];
const OF_ERASURE = ['erasure_request', 'restricted_key', 'erasure_position'];

beforeAll(async () => {
  for (const { user } of LOGINS) clients.set(user, await database.client(user));
  // Each class has a person's key; then the logins get what they have in the tests.
  await owner.query(`select vault.set_access('sealed_sealer', '{}', '{contact,tax,health}')`);
  const maker = createKeyring({ name: 'test', vault: postgresVault(database.pool('sealed_sealer')), kms });
  await maker.keysToSeal(['contact', 'tax', 'health'].map((className) => person(className)));
  await owner.query(`select vault.set_access('sealed_sealer', '{tax}', '{contact}')`);
  await owner.query(`select vault.set_access('sealed_opener', '{contact}', '{}')`);
});

/** Null, or the SQLSTATE with which a statement ends; nothing of it stays. */
async function outcome(user: TestUser, sql: string): Promise<string | null> {
  await as(user).query('begin');
  try {
    await as(user).query(sql);
    return null;
  } catch (error) {
    return (error as { code: string }).code;
  } finally {
    await as(user).query('rollback');
  }
}

async function otherThan(expected: string | null, user: TestUser, statements: readonly string[]): Promise<string[]> {
  const others: string[] = [];
  for (const sql of statements) {
    const state = await outcome(user, sql);
    if (state !== expected) others.push(`${state}: ${sql}`);
  }
  return others;
}

const key = (className: string, more: Readonly<Record<string, string>> = {}): string => {
  const columns = {
    class: `'${className}'`,
    key_id: `'BBBBBBBBBBBBBBBBBBBBBA'`,
    version: '1',
    subject_kind: `'customer'`,
    subject_id: `'P-2'`,
    branch_version: '1',
    wrapped: `decode(repeat('00', 65), 'hex')`,
    ...more,
  };
  return `insert into vault.subject_key (${Object.keys(columns).join(', ')}) values (${Object.values(columns).join(', ')})`;
};
const branch = (className: string, version = 2): string =>
  `insert into vault.branch_key (class, version, kms_key, wrapped) values ('${className}', ${version}, 'k', '\\x00') on conflict do nothing`;

const indexKey = (name: string, version = 1): string =>
  `insert into vault.index_key (name, version, kms_key, wrapped) values ('${name}', ${version}, 'k', '\\x00') on conflict do nothing`;
const ROTATES_INDEXES = [
  `select vault.index_rotation('customer-email')`,
  `select vault.add_index_key('customer-email', 2, 'k', '\\x00')`,
  `select vault.promote_index_key('customer-email', 2)`,
  `select vault.destroy_index_keys('customer-email', 2)`,
];

const classesSeen = async (user: TestUser, table: string): Promise<string[]> => {
  const { rows } = await as(user).query(`select distinct class from vault.${table} order by 1`);
  return rows.map((row) => row.class as string);
};

/** What nobody may who logs in. */
const FOR_NOBODY = [
  ...TABLES.flatMap((table) => [`delete from vault.${table}`, `truncate vault.${table}`]),
  'update vault.branch_key set version = 2',
  'update vault.branch_key set retired_at = null',
  'update vault.branch_key set created_at = now()',
  `update vault.canary set value = 'sealed.1.'`,
  `update vault.subject_key set subject_id = 'P-3'`,
  `update vault.class_access set class = 'tax'`,
  `insert into vault.class_access (login, class) values (current_user, 'tax')`,
  `insert into vault.branch_key (class, version, state, kms_key) values ('contact', 1, 'destroyed', 'k')`,
  `insert into vault.subject_key (created_at) values (now())`,
  `insert into vault.index_access (login, name) values (current_user, 'customer-name')`,
  `insert into vault.blind_index (name, class) values ('mine', 'contact')`,
  `update vault.blind_index set class = 'tax'`,
  `update vault.index_key set state = 'retired'`,
  `update vault.index_key set wrapped = null, state = 'destroyed'`,
  `insert into vault.index_key (name, version, state, kms_key) values ('customer-email', 2, 'next', 'k')`,
  `select vault.set_index_access(current_user, '{"customer-name": "contact"}')`,
  `select vault.set_access(current_user, '{tax}', '{tax}')`,
  'set role vault_owner',
  'create table vault.mine (n int)',
  'alter table vault.subject_key disable row level security',
  'drop policy of_its_classes on vault.subject_key',
];

/** What only rotation may. */
const ROTATION = [
  `update vault.restricted_key set wrapped = '\\x00'`,
  `update vault.branch_key set state = 'retired'`,
  `update vault.branch_key set wrapped = null, state = 'destroyed'`,
  `update vault.branch_key set kms_key = ''`,
  'update vault.subject_key set branch_version = 1',
  'select from vault.canary',
  `insert into vault.canary (class, value) values ('contact', 'sealed.1.')`,
  'update vault.canary set opened_at = now()',
  `update vault.restricted_key set wrapped = '\\x00'`,
];

/** What only erasing may. */
const ERASURE = [
  ...['erasure', ...OF_ERASURE.filter((table) => table !== 'erasure_position')].flatMap((table) => [
    `insert into vault.${table} default values`,
  ]),
  'select from vault.erasure',
  'select from vault.erasure_request',
  'delete from vault.erasure_request',
  'delete from vault.restricted_key',
  'update vault.erasure set announce_again_at = null',
  'update vault.erasure_position set through = through + 1',
];

/** What erasing may not either. */
const NOT_EVEN_ERASURE = [
  ...['erasure', ...OF_ERASURE].map((table) => `truncate vault.${table}`),
  'delete from vault.erasure',
  'delete from vault.erasure_position',
  'insert into vault.erasure_position (through) values (0)',
  `update vault.erasure set key_names = '{}'`,
  `update vault.erasure set number = number + 1`,
  'update vault.erasure_request set due_at = now()',
  'update vault.restricted_key set keep_until = now()',
  'delete from vault.subject_key',
];

describe.each(LOGINS)('$user', ({ user, roles }) => {
  const own = roles as readonly string[];

  it('may do in the vault what its role says', async () => {
    const reads = ['vault_reader', 'vault_writer', 'vault_rotator'].some((role) => own.includes(role));
    const erases = own.includes('vault_eraser');
    const READS = ['class_access', 'branch_key', 'subject_key'].map((table) => `select from vault.${table}`);
    expect(await otherThan(reads ? null : FORBIDDEN, user, erases ? READS.slice(0, 2) : READS)).toEqual([]);
    const searches = own.includes('vault_reader') || own.includes('vault_writer');
    const SEARCHES = OF_INDEXES.map((table) => `select from vault.${table}`);
    expect(await otherThan(searches ? null : FORBIDDEN, user, SEARCHES)).toEqual([]);
    if (!own.includes('vault_writer')) {
      const adds = [key('contact'), branch('contact', 1), indexKey('customer-email')];
      expect(await otherThan(FORBIDDEN, user, adds)).toEqual([]);
    }
    expect(await otherThan(own.includes('vault_index_rotator') ? null : FORBIDDEN, user, ROTATES_INDEXES)).toEqual([]);
    if (!own.includes('vault_rotator')) expect(await otherThan(FORBIDDEN, user, ROTATION)).toEqual([]);
    if (!erases) expect(await otherThan(FORBIDDEN, user, ERASURE)).toEqual([]);
    if (!erases && !own.includes('vault_rotator')) {
      expect(await otherThan(FORBIDDEN, user, ['update vault.subject_key set wrapped = null'])).toEqual([]);
    }
    if (!erases && !own.includes('vault_restricted_reader') && !own.includes('vault_rotator')) {
      expect(await otherThan(FORBIDDEN, user, ['select from vault.restricted_key'])).toEqual([]);
    }
    const seesPosition = reads || erases;
    expect(
      await otherThan(seesPosition ? null : FORBIDDEN, user, ['select through from vault.erasure_position']),
    ).toEqual([]);
    expect(await otherThan(FORBIDDEN, user, [...FOR_NOBODY, ...NOT_EVEN_ERASURE])).toEqual([]);
  });
});

describe('the rows of a class', () => {
  it('are shown to the logins that may use it, and to no other', async () => {
    for (const table of ['class_access', 'branch_key', 'subject_key']) {
      expect(await classesSeen('sealed_sealer', table)).toEqual(['contact', 'tax']);
      expect(await classesSeen('sealed_opener', table)).toEqual(['contact']);
    }
    await owner.query(`select vault.set_access('sealed_opener', '{}', '{}')`);
    for (const table of ['class_access', 'branch_key', 'subject_key']) {
      expect(await classesSeen('sealed_opener', table)).toEqual([]);
    }
    await owner.query(`select vault.set_access('sealed_opener', '{contact}', '{}')`);
  });

  it('are added only by logins that may create, in that class', async () => {
    expect(await otherThan(null, 'sealed_sealer', [key('contact'), branch('contact', 1)])).toEqual([]);
    const refused = [
      key('tax'),
      key('health'),
      branch('tax', 1),
      branch('health', 1),
      branch('fresh', 1),
      // Erased is what the owner says, and later versions come by rotation.
      key('contact', { wrapped: 'null' }),
      key('contact', { version: '2' }),
      branch('contact', 2),
    ];
    expect(await otherThan(FORBIDDEN, 'sealed_sealer', refused)).toEqual([]);
  });

  it('hold what the library can read again, whoever writes them', async () => {
    const upper = { subject_id: `'6F1C7A52-8D0B-4C5E-9D6A-0B1F3C2D4E5F'` };
    const broken = [upper, { subject_id: `''` }, { subject_kind: `''` }, { key_id: `'short'` }, { wrapped: `'\\x00'` }];
    for (const columns of broken) expect(await outcome('sealed_sealer', key('contact', columns))).toBe('23514');
    expect(await outcome('sealed_sealer', key('contact', { branch_version: '7' }))).toBe('23503');
    expect(await outcome('sealed_sealer', key('contact', { subject_id: `'P-1'` }))).toBe('23505');
  });
});

describe('the keys of an index', () => {
  const grant = (user: TestUser, indexes: object): Promise<unknown> =>
    owner.query('select vault.set_index_access($1, $2)', [user, JSON.stringify(indexes)]);
  const seen = async (user: TestUser, table: string): Promise<string[]> => {
    const { rows } = await as(user).query(`select distinct name from vault.${table} order by 1`);
    return rows.map((row) => row.name as string);
  };

  it('are shown to the logins that were given the index, whatever classes they have', async () => {
    await grant('sealed_sealer', { 'customer-email': 'contact', 'customer-name': 'contact' });
    for (const name of ['customer-email', 'customer-name']) await as('sealed_sealer').query(indexKey(name));
    for (const table of ['blind_index', 'index_access', 'index_key']) {
      expect(await seen('sealed_sealer', table)).toEqual(['customer-email', 'customer-name']);
      expect(await seen('sealed_opener', table)).toEqual([]);
    }
    await grant('sealed_opener', { 'customer-email': 'contact' });
    for (const table of ['blind_index', 'index_access', 'index_key']) {
      expect(await seen('sealed_opener', table)).toEqual(['customer-email']);
    }
    await grant('sealed_opener', {});
    expect(await seen('sealed_opener', 'index_key')).toEqual([]);
  });

  it('are added only by logins that were given the index, and only the first', async () => {
    await grant('sealed_sealer', { 'customer-email': 'contact' });
    await grant('sealed_opener', { 'customer-email': 'contact' });
    const refused = [indexKey('customer-email', 2), indexKey('customer-name', 3), indexKey('unheard-of')];
    expect(await otherThan(FORBIDDEN, 'sealed_sealer', refused)).toEqual([]);
    expect(await otherThan(null, 'sealed_sealer', [indexKey('customer-email')])).toEqual([]);
    expect(await otherThan(FORBIDDEN, 'sealed_opener', [indexKey('customer-email')])).toEqual([]);
  });

  it('are of one class, for all', async () => {
    await expect(grant('sealed_opener', { 'customer-email': 'tax' })).rejects.toMatchObject({ code: '22023' });
    await expect(grant('sealed_opener', { Customer: 'tax' })).rejects.toMatchObject({ code: '23514' });
  });

  it('are not read by whoever rotates them', async () => {
    expect(await outcome('sealed_index_rotator', 'select wrapped from vault.index_key')).toBe(FORBIDDEN);
  });
});

describe('a keyring', () => {
  it('of a login without the class is denied, in words that hold nothing of the person', async () => {
    const sealer = createKeyring({ name: 'test', vault: postgresVault(database.pool('sealed_sealer')), kms });
    for (const className of ['health', 'tax']) {
      const error = await sealer.keysToSeal([person(className, 'P-ada')]).catch((cause: unknown) => cause);
      expect(error).toMatchObject({ code: 'SEALING_DENIED' });
      expect(String(error)).not.toContain('P-ada');
    }
    // It reads that class, so what is there already is used.
    await expect(sealer.keysToSeal([person('tax')])).resolves.toBeTypeOf('function');
  });

  it('of a login that is no user of the vault is denied', async () => {
    const keys = createKeyring({ name: 'test', vault: postgresVault(database.pool('sealed_ledger')), kms });
    await expect(keys.keysToSeal([person('contact')])).rejects.toMatchObject({ code: 'SEALING_DENIED' });
  });
});

describe('nobody', () => {
  it('logs in as a role of the vault, and public has no right in it', async () => {
    const roles = await owner.query(
      `select rolname from pg_roles
        where rolname ~ '^vault_' and (rolcanlogin or rolsuper or rolbypassrls or rolcreaterole)`,
    );
    expect(roles.rows).toEqual([]);
    const { rows } = await owner.query(
      `select o.name
         from (select pronamespace as namespace, proname as name, coalesce(proacl, acldefault('f', proowner)) as acl from pg_proc
                union all
               select relnamespace, relname, coalesce(relacl, acldefault('r', relowner)) from pg_class where relkind in ('r', 'v', 'S', 'm')) o
        cross join aclexplode(o.acl) a
        where o.namespace = 'vault'::regnamespace and a.grantee = 0`,
    );
    expect(rows).toEqual([]);
  });
});
