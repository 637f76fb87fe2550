import { beforeAll, describe, expect, it } from 'vitest';
import { testDatabase } from '../../support/database.ts';
import { erasingShop } from '../../support/erasures.ts';

const database = await testDatabase();
const shop = await erasingShop(database);
const eraser = await database.client('sealed_eraser');
const auditor = await database.client('sealed_auditor');
const FORBIDDEN = '42501';
const BYTES = `decode(repeat('00', 65), 'hex')`;
const KEY = `'contact', 'BBBBBBBBBBBBBBBBBBBBBA', 1, 'customer', 'P-2'`;

/** How many rows a statement changes, or the SQLSTATE with which it ends; nothing of it stays. */
async function outcome(sql: string, client = eraser): Promise<number | null | string> {
  await client.query('begin');
  try {
    return (await client.query(sql)).rowCount;
  } catch (error) {
    return (error as { code: string }).code;
  } finally {
    await client.query('rollback');
  }
}

beforeAll(async () => {
  await shop.customer('P-open');
  await shop.customer('P-erased');
  await shop.erasure().erase({ subject: { kind: 'customer', id: 'P-erased' } });
});

describe('whoever erases', () => {
  it('may take bytes away in every class, and write none', async () => {
    expect(await outcome(`update vault.subject_key set wrapped = null where subject_id = 'P-open'`)).toBe(2);
    expect(await outcome(`update vault.subject_key set wrapped = ${BYTES} where subject_id = 'P-erased'`)).toBe(
      FORBIDDEN,
    );
    for (const change of ['branch_version = 2', `subject_id = 'P-3'`, `key_id = 'x'`, 'version = 2']) {
      expect(await outcome(`update vault.subject_key set ${change}`)).toBe(FORBIDDEN);
    }
  });

  it('may add a key that never had bytes, and no other', async () => {
    const columns = 'class, key_id, version, subject_kind, subject_id';
    expect(await outcome(`insert into vault.subject_key (${columns}) values (${KEY})`)).toBe(1);
    expect(
      await outcome(`insert into vault.subject_key (${columns}, branch_version, wrapped) values (${KEY}, 1, ${BYTES})`),
    ).toBe(FORBIDDEN);
  });

  it('sees no branch key, no canary and no class of a login', async () => {
    for (const table of ['branch_key', 'canary', 'class_access', 'index_key']) {
      expect(await outcome(`select from vault.${table}`)).toBe(FORBIDDEN);
    }
  });
});

describe('whoever may look into restricted data', () => {
  it('sees keys of its classes, and changes nothing', async () => {
    expect(await outcome('select wrapped from vault.restricted_key', auditor)).toBe(1);
    for (const sql of ['delete from vault.restricted_key', `update vault.restricted_key set wrapped = ${BYTES}`]) {
      expect(await outcome(sql, auditor)).toBe(FORBIDDEN);
    }
    expect(await outcome('select subject_id from vault.restricted_key', auditor)).toBe(FORBIDDEN);
    await shop.owner.query(`select vault.set_access('sealed_auditor', '{contact}', '{}')`);
    expect(await outcome('select wrapped from vault.restricted_key', auditor)).toBe(0);
  });
});

describe('the vault', () => {
  it('holds no key with bytes that names no branch key', async () => {
    await expect(
      shop.owner.query(
        `insert into vault.subject_key (class, key_id, version, subject_kind, subject_id, wrapped) values (${KEY}, ${BYTES})`,
      ),
    ).rejects.toMatchObject({ code: '23514' });
  });
});
