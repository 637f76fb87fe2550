import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  blindIndex,
  createIndexKeys,
  createKeyring,
  email,
  listKeys,
  postgresIndexVault,
  postgresVault,
  renewSubjectKey,
  requestRotation,
  takeRotationRequests,
} from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { rotate, rotationOn, sealFor } from '../../support/rotation.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const asker = database.pool('sealed_asker', 1);
const keeper = database.pool('sealed_keeper', 1);
const rotation = rotationOn(keeper);
const person = { kind: 'customer', id: 'C-1' };
const NOTHING = { rotate: [], rotateIndex: [], renew: [] };

beforeAll(async () => {
  for (const user of ['sealed_keeper', 'sealed_sealer']) {
    await owner.query(`select vault.set_access($1, '{}', '{contact,tax}')`, [user]);
    await owner.query(`select vault.set_index_access($1, '{"customer-email": "contact"}')`, [user]);
  }
  const sealer = database.pool('sealed_sealer');
  const ring = createKeyring({ name: 'test', vault: postgresVault(sealer), kms: rotation.kms });
  for (const className of ['contact', 'tax']) await sealFor(ring, className, person.id);
  await sealFor(ring, 'contact', 'C-erased');
  await owner.query(`update vault.subject_key set wrapped = null where subject_id = 'C-erased'`);
  const indexKeys = createIndexKeys({ name: 'test', vault: postgresIndexVault(sealer), kms: rotation.kms });
  await indexKeys.load([blindIndex({ name: 'customer-email', class: 'contact', normaliser: email })]);
});
beforeEach(() => owner.query('truncate vault.rotation_request'));

describe('what is asked of keys', () => {
  it('is taken up until it is done, and asked for once', async () => {
    expect(await requestRotation(asker, { class: 'contact' })).toBe(true);
    expect(await requestRotation(asker, { class: 'contact' })).toBe(false);
    expect(await requestRotation(asker, { class: 'contact', subject: person })).toBe(true);
    expect(await requestRotation(asker, { index: 'customer-email' })).toBe(true);
    expect(await requestRotation(asker, { index: 'customer-email' })).toBe(false);
    const asked = {
      rotate: ['contact'],
      rotateIndex: ['customer-email'],
      renew: [{ class: 'contact', subject: person }],
    };
    // A run that ended before it came so far.
    expect(await takeRotationRequests(keeper)).toEqual(asked);
    expect(await takeRotationRequests(keeper)).toEqual(asked);
    expect((await listKeys(asker)).filter(({ requestedSeconds }) => requestedSeconds !== null)).toMatchObject([
      { key: 'branch', class: 'contact', state: 'active' },
      { key: 'index customer-email', class: 'contact', state: 'active' },
    ]);

    await rotate(rotation, { now: asked.rotate });
    expect(await takeRotationRequests(keeper)).toEqual({ ...asked, rotate: [] });
    await renewSubjectKey(rotation, 'contact', person);
    await owner.query(
      `insert into vault.index_key (name, version, state, kms_key, wrapped) values ('customer-email', 2, 'next', 'k', '\\x00')`,
    );
    expect(await takeRotationRequests(keeper)).toEqual(NOTHING);
    expect(await requestRotation(asker, { class: 'contact' })).toBe(true);
  });

  it('is forgotten when its person is erased meanwhile', async () => {
    await requestRotation(asker, { class: 'tax', subject: person });
    await owner.query(`update vault.subject_key set wrapped = null where class = 'tax' and subject_id = 'C-1'`);
    expect(await takeRotationRequests(keeper)).toEqual(NOTHING);
    expect((await owner.query('select from vault.rotation_request')).rowCount).toBe(0);
  });

  it.each([
    { class: 'bank' },
    { index: 'customer-phone' },
    { class: 'contact', subject: { kind: 'customer', id: 'C-nobody' } },
    { class: 'contact', subject: { kind: 'customer', id: 'C-erased' } },
  ])('is refused where there is no such key: %j', async (key) => {
    const asking = requestRotation(asker, key);
    await expect(asking).rejects.toMatchObject({ code: 'SEALING_KEY_UNKNOWN' });
    await expect(asking).rejects.not.toMatchObject({ message: expect.stringContaining('C-') });
  });

  it('is for whoever rotates the class only', async () => {
    await requestRotation(asker, { class: 'contact' });
    await owner.query(`select vault.set_access('sealed_rotator', '{contact}', '{tax}')`);
    expect(await takeRotationRequests(database.pool('sealed_rotator', 1))).toEqual(NOTHING);
    expect(await takeRotationRequests(keeper)).toMatchObject({ rotate: ['contact'] });
  });
});

describe('vault_operator', () => {
  it.each([
    'select from vault.branch_key',
    'select from vault.subject_key',
    'select from vault.index_key',
    'select from vault.rotation_request',
    `insert into vault.rotation_request (class, version) values ('contact', 1)`,
    'delete from vault.rotation_request',
    'select from vault.erasure_request',
    'select vault.take_rotation_requests()',
    `select vault.newest_version('contact', null, 'customer', 'C-1')`,
    `select vault.add_index_key('customer-email', 3, 'k', '\\x00')`,
  ])('may not: %s', async (sql) => {
    await expect(asker.query(sql)).rejects.toMatchObject({ code: '42501' });
  });

  it('sees no bytes of a key and nobody’s name', async () => {
    await requestRotation(asker, { class: 'contact', subject: person });
    const { rows } = await asker.query('select * from vault.list_keys(), vault.erasure_overview()');
    expect(rows.length).toBeGreaterThan(2);
    expect(JSON.stringify(rows)).not.toMatch(/C-1|wrapped/);
    expect(rows[0]).toMatchObject({ renewals: 1, waiting: 0, overdue: 0, kept: 0 });
  });

  it('alone may ask', async () => {
    for (const user of [
      'sealed_api',
      'sealed_janitor',
      'sealed_rotator',
      'sealed_eraser',
      'sealed_operator',
    ] as const) {
      const asking = requestRotation(database.pool(user, 1), { class: 'contact' });
      await expect(asking, user).rejects.toMatchObject({ code: 'SEALING_DENIED' });
    }
  });
});
