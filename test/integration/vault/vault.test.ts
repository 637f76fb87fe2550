import { randomUUID } from 'node:crypto';
import { beforeAll, describe, expect, it } from 'vitest';
import {
  createKeyring,
  type Keyring,
  postgresVault,
  type SubjectKey,
  type VaultPool,
} from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { type FakeKms, fakeKms } from '../../support/keyring.ts';
import { openValue, sealValue } from '../../../shared/sealing/value.ts';
import { EVENT } from '../../support/sealing.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const sealer = database.pool('sealed_sealer', 8);

beforeAll(async () => {
  await owner.query(`select vault.set_access('sealed_sealer', '{}', '{contact,tax}')`);
  await owner.query(`select vault.set_access('sealed_opener', '{contact}', '{}')`);
});

const kms = fakeKms();
const keyring = (pool = sealer, with_: FakeKms = kms): Keyring =>
  createKeyring({ name: 'test', vault: postgresVault(pool), kms: with_ });
const person = (id: string, className = 'contact') => ({ class: className, subject: { kind: 'customer', id } });

async function keyOf(ring: Keyring, id: string, className = 'contact'): Promise<SubjectKey | 'erased' | undefined> {
  return (await ring.keysToSeal([person(id, className)]))(className, person(id).subject);
}

async function madeFor(ring: Keyring, id: string, className?: string): Promise<SubjectKey> {
  const key = await keyOf(ring, id, className);
  if (key === undefined || key === 'erased') throw new Error(`no key: ${key}`);
  return key;
}

async function open(ring: Keyring, text: string, key: SubjectKey): Promise<unknown> {
  const found = (await ring.keysToOpen([key]))(key);
  return typeof found === 'object' ? openValue(text, found, EVENT) : found;
}

const countOf = async (id: string): Promise<number> => {
  const { rows } = await owner.query('select count(*)::int as n from vault.subject_key where subject_id = $1', [id]);
  return rows[0].n;
};

describe('a vault in PostgreSQL', () => {
  it('gives back to another process what one has made', async () => {
    const key = await madeFor(keyring(), 'V-1');
    const text = sealValue('Ada', key, EVENT);
    expect(await open(keyring(), text, key)).toBe('Ada');
    expect(await open(keyring(database.pool('sealed_opener')), text, key)).toBe('Ada');
    expect((await madeFor(keyring(), 'V-1')).keyId).toBe(key.keyId);
  });

  it('holds no key in clear', async () => {
    const key = await madeFor(keyring(), 'V-clear');
    const { rows } = await owner.query(`select wrapped from vault.subject_key where key_id = $1`, [key.keyId]);
    expect(rows[0].wrapped).toHaveLength(65);
    expect(rows[0].wrapped.includes(key.secret.export())).toBe(false);
  });

  it('case 44: many that create the same persons at once, in any order, end with one key for each', async () => {
    const ids = Array.from({ length: 20 }, () => randomUUID());
    const orders = Array.from({ length: 8 }, (_, index) =>
      index % 2 === 0 ? ids : ids.toReversed().map((id) => id.toUpperCase()),
    );
    const all = await Promise.all(
      orders.map((order) => keyring(database.pool('sealed_sealer', 1)).keysToSeal(order.map((id) => person(id)))),
    );
    for (const id of ids) {
      const keys = all.map((keys) => keys('contact', person(id).subject) as SubjectKey);
      expect(new Set(keys.map(({ keyId }) => keyId)).size).toBe(1);
      expect(await countOf(id)).toBe(1);
      const text = sealValue(id, keys[0]!, EVENT);
      expect(openValue(text, keys[7]!, EVENT)).toBe(id);
    }
  });

  it('like case 44: many that make the first branch key of a class at once end with one', async () => {
    await owner.query(`select vault.set_access('sealed_sealer', '{}', '{contact,tax,fresh}')`);
    const keys = await Promise.all(
      Array.from({ length: 8 }, (_, index) =>
        madeFor(keyring(database.pool('sealed_sealer', 1)), `F-${index}`, 'fresh'),
      ),
    );
    const { rows } = await owner.query(`select version from vault.branch_key where class = 'fresh'`);
    expect(rows).toEqual([{ version: 1 }]);
    for (const key of keys) expect(await open(keyring(), sealValue('x', key, EVENT), key)).toBe('x');
  });

  it('answers the newest version of a person, and each by its name', async () => {
    const old = await madeFor(keyring(), 'V-rotated');
    await owner.query(
      `insert into vault.subject_key (class, key_id, version, subject_kind, subject_id, branch_version, wrapped)
       select class, key_id, 2, subject_kind, subject_id, branch_version, null from vault.subject_key where key_id = $1`,
      [old.keyId],
    );
    // The second has no bytes here, so that it can be told from the first.
    expect(await keyOf(keyring(), 'V-rotated')).toBe('erased');
    expect(await open(keyring(), sealValue('x', old, EVENT), old)).toBe('x');
  });

  it('case 48: says erased where the bytes are gone, which is not unknown, and gives the person no other key', async () => {
    const key = await madeFor(keyring(), 'V-erased');
    await owner.query(`update vault.subject_key set wrapped = null where key_id = $1`, [key.keyId]);
    expect(await open(keyring(), 'x', key)).toBe('erased');
    expect(await keyOf(keyring(), 'V-erased')).toBe('erased');
    expect(await countOf('V-erased')).toBe(1);
    expect(await open(keyring(), 'x', { ...key, version: 2 })).toBeUndefined();
  });

  it('commits a key for sure, also where the session does not wait for the disk', async () => {
    await owner.query(
      `create table commits (setting text);
       grant insert on commits to public;
       create function note_commit() returns trigger language plpgsql as $$
         begin insert into commits values (current_setting('synchronous_commit')); return null; end $$;
       create constraint trigger note after insert on vault.subject_key deferrable initially deferred
         for each row execute function note_commit();
       create constraint trigger note after insert on vault.branch_key deferrable initially deferred
         for each row execute function note_commit()`,
    );
    await owner.query(`select vault.set_access('sealed_sealer', '{}', '{contact,tax,quick}')`);
    const pool = database.pool('sealed_sealer', 1);
    await pool.query('set synchronous_commit = off');
    await keyOf(keyring(pool), 'V-quick', 'quick');
    const { rows } = await owner.query('select setting from commits');
    expect(rows).toEqual([{ setting: 'on' }, { setting: 'on' }]);
    expect((await pool.query('show synchronous_commit')).rows).toEqual([{ synchronous_commit: 'off' }]);
    await owner.query('drop trigger note on vault.subject_key; drop trigger note on vault.branch_key');
  });

  it('says unavailable where there is no vault, nothing answers, or a statement fails', async () => {
    const gone = database.pool('sealed_sealer', 1);
    await gone.end();
    const without = keyring(gone);
    await expect(without.keysToSeal([person('V-1')])).rejects.toMatchObject({ code: 'SEALING_UNAVAILABLE' });
    const slow = database.pool('sealed_sealer', 1);
    await slow.query('set statement_timeout = 50');
    const locked = await database.client('sealed_migrator');
    await locked.query('begin; lock table vault.subject_key');
    await expect(keyring(slow).keysToSeal([person('V-1')])).rejects.toMatchObject({
      code: 'SEALING_UNAVAILABLE',
      message: expect.stringContaining('57014'),
    });
    await locked.query('rollback');
  });

  it('looks into an index for each person and each name, however little the server knows of the table', async () => {
    await owner.query('alter table vault.subject_key set (autovacuum_enabled = off)');
    const ids = Array.from({ length: 1_000 }, (_, index) => `V-plan-${index}`);
    await keyring().keysToSeal(ids.map((id) => person(id)));
    const { rows } = await owner.query(
      `select class, key_id as "keyId", version from vault.subject_key where subject_id like 'V-plan-%' limit 200`,
    );
    const client = await database.client('sealed_opener');
    const pool: VaultPool = { totalCount: 1, query: (...given) => client.query(...given) };
    const scans = async (): Promise<number> =>
      (await client.query(`select pg_stat_get_xact_numscans('vault.subject_key'::regclass)::int as n`)).rows[0].n;
    for (const named of [true, false]) {
      await client.query('begin');
      const before = await scans();
      // From the sixth call on a named statement may keep a plan for all values.
      for (let call = 0; call < 8; call += 1) {
        const asked = ids.slice(call * 20, call * 20 + 20).map((id) => person(id));
        const answer = await postgresVault(pool, { named }).read(asked, rows.slice(call * 20, call * 20 + 20));
        expect(answer.subjects).toHaveLength(40);
      }
      expect(await scans()).toBe(before);
      await client.query('commit');
    }
  });

  it('plans its reads once for each connection, unless it is told that connections are shared', async () => {
    const statements = async (named?: boolean): Promise<unknown[]> => {
      const pool = database.pool('sealed_sealer', 1);
      const vault = postgresVault(pool, named === undefined ? {} : { named });
      for (let call = 0; call < 7; call += 1) await vault.read([person(`V-${call}`)], []);
      const { rows } = await pool.query(
        `select name, custom_plans + generic_plans as plans, generic_plans > 0 as kept from pg_prepared_statements`,
      );
      return rows.map((row) => ({ ...row, plans: Number(row.plans) }));
    };
    expect(await statements()).toEqual([{ name: 'sealed-outbox-vault-read', plans: 7, kept: true }]);
    expect(await statements(false)).toEqual([]);
  });
});
