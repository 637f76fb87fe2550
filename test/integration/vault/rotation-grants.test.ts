import { beforeAll, describe, expect, it } from 'vitest';
import { createKeyring, postgresVault } from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { ageRetired, branchesOf, giveClass, rotate, rotationOn, sealFor } from '../../support/rotation.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const rotator = await database.client('sealed_rotator');
const rotation = rotationOn(database.pool('sealed_rotator', 1));

beforeAll(async () => {
  await giveClass(owner, 'contact', 'tax');
  const ring = createKeyring({ name: 'test', vault: postgresVault(database.pool('sealed_sealer')), kms: rotation.kms });
  for (const id of ['P-1', 'P-erased']) for (const className of ['contact', 'tax']) await sealFor(ring, className, id);
  await owner.query(`update vault.subject_key set wrapped = null where subject_id = 'P-erased'`);
  await rotate(rotation, { now: ['contact', 'tax'] });
  await owner.query(`select vault.set_access('sealed_rotator', '{tax}', '{contact}')`);
});

/** SQLSTATE and rows that a statement of the rotator's changed, or how it ended; nothing of it stays. */
async function outcome(sql: string): Promise<number | string> {
  await rotator.query('begin');
  try {
    return (await rotator.query(sql)).rowCount ?? 0;
  } catch (error) {
    return (error as { code: string }).code;
  } finally {
    await rotator.query('rollback');
  }
}

const FORBIDDEN = '42501';

describe('vault_rotator', () => {
  it('changes keys of the classes in which its login may create, and no other', async () => {
    expect(await outcome(`update vault.branch_key set kms_key = 'other'`)).toBe(2);
    expect(await outcome(`update vault.branch_key set kms_key = 'other' where class = 'tax'`)).toBe(0);
    expect(await outcome(`update vault.subject_key set branch_version = 2 where class = 'tax'`)).toBe(0);
    expect(
      await outcome(`insert into vault.branch_key (class, version, kms_key, wrapped) values ('tax', 3, 'k', '\\x00')`),
    ).toBe(FORBIDDEN);
    expect(await outcome(`update vault.canary set opened_at = now()`)).toBe(1);
  });

  it('like case 48: neither erases anybody nor brings anybody back', async () => {
    expect(await outcome('update vault.subject_key set wrapped = null')).toBe(FORBIDDEN);
    const bytes = `decode(repeat('00', 65), 'hex')`;
    expect(await outcome(`update vault.subject_key set wrapped = ${bytes} where subject_id = 'P-erased'`)).toBe(0);
    expect(
      await outcome(`update vault.subject_key set wrapped = ${bytes} where subject_id = 'P-1' and class = 'contact'`),
    ).toBe(1);
  });

  it('wraps anew what is only kept because it must be, and does nothing else to it', async () => {
    expect(await outcome(`update vault.restricted_key set branch_version = 2`)).toBe(0);
    for (const sql of [
      'select subject_hmac from vault.restricted_key',
      'select keep_until from vault.restricted_key',
      'update vault.restricted_key set keep_until = now()',
      'delete from vault.restricted_key',
      'insert into vault.restricted_key default values',
    ]) {
      expect(await outcome(sql), sql).toBe(FORBIDDEN);
    }
  });

  it('adds later versions only, with their bytes', async () => {
    const version = (n: number, bytes: string) =>
      `insert into vault.subject_key (class, key_id, version, subject_kind, subject_id, branch_version, wrapped)
       select class, key_id, ${n}, subject_kind, subject_id, branch_version, ${bytes} from vault.subject_key
        where class = 'contact' and subject_id = 'P-1'`;
    expect(await outcome(version(2, 'wrapped'))).toBe(1);
    expect(await outcome(version(2, 'null'))).toBe(FORBIDDEN);
  });

  it('retires a branch key only where another takes its place', async () => {
    expect(
      await outcome(`update vault.branch_key set state = 'retired' where class = 'contact' and state = 'active'`),
    ).toBe('VA003');
  });

  it('destroys nothing that is active, was retired within the hour, or wraps something; nor brings it back', async () => {
    const destroy = (version: number) =>
      `update vault.branch_key set state = 'destroyed', wrapped = null where class = 'contact' and version = ${version}`;
    expect(await outcome(destroy(2))).toBe('VA002');
    expect(await outcome(destroy(1))).toBe('VA002');
    await ageRetired(owner);
    await owner.query(`update vault.subject_key set branch_version = 1 where class = 'contact' and subject_id = 'P-1'`);
    expect(await outcome(destroy(1))).toBe('VA002');
    await owner.query(`update vault.subject_key set branch_version = 2 where class = 'contact' and subject_id = 'P-1'`);
    expect(await outcome(destroy(1))).toBe(1);
    expect(await outcome(`update vault.branch_key set state = 'active' where class = 'contact' and version = 1`)).toBe(
      'VA002',
    );
  });

  it('cannot say when a branch key was retired, and neither can the owner by mistake', async () => {
    expect(await outcome(`update vault.branch_key set retired_at = now() - interval '1 day'`)).toBe(FORBIDDEN);
    await owner.query(`select vault.set_access('sealed_rotator', '{}', '{contact,tax}')`);
    await rotate(rotation, { now: ['tax'] });
    const { rows } = await owner.query(
      `select version, retired_at > now() - interval '1 minute' as now from vault.branch_key where class = 'tax' and state = 'retired' order by version`,
    );
    expect(rows.at(-1)).toEqual({ version: 2, now: true });
    expect((await branchesOf(owner, 'tax')).at(-1)).toMatch(/^3 active/);
  });
});
