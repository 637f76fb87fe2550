import { randomUUID } from 'node:crypto';
import type pg from 'pg';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type Backfilled,
  backfillIndex,
  blindIndex,
  createIndexKeys,
  createKeyring,
  email,
  type Keyring,
  hasOlderValues,
  type IndexedColumn,
  type IndexKeys,
  type IndexRotationStep,
  type Normaliser,
  openValue,
  parseSealed,
  postgresIndexVault,
  postgresVault,
  rotateIndexKey,
  type RowContext,
  sealValue,
  taxId,
} from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { fakeKms } from '../../support/keyring.ts';
import { movedClock } from '../../support/moved-clock.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const pool = database.pool('sealed_sealer');
const kms = fakeKms();
const keyring = createKeyring({ name: 'test', vault: postgresVault(pool), kms });
const clock = movedClock();

const byEmail = blindIndex({ name: 'customer-email', class: 'contact', normaliser: email });
const byTaxId = blindIndex({ name: 'customer-tax-id', class: 'contact', normaliser: taxId });
const COLUMN: IndexedColumn = {
  store: 'test',
  table: 'customer',
  relation: 'public.customer',
  primaryKey: 'id',
  sealed: 'email',
  index: 'email_index',
};
const place = (primaryKey: string): RowContext => ({
  in: 'row',
  store: 'test',
  table: 'customer',
  primaryKey,
  column: 'email',
});

const indexKeysOn = (on: pg.Pool = pool): IndexKeys =>
  createIndexKeys({ name: 'test', vault: postgresIndexVault(on), kms, clock });

beforeAll(async () => {
  await owner.query(`
    create table customer (id uuid primary key, email text, email_index bytea);
    create index on customer (email_index);
    grant select, insert, update on customer to sealed_sealer;
    select vault.set_access('sealed_sealer', '{}', '{contact}');
    select vault.set_index_access('sealed_sealer', '{"customer-email": "contact", "customer-tax-id": "contact"}')`);
});
beforeEach(async () => {
  await owner.query('truncate vault.index_key; truncate customer');
  kms.calls.length = 0;
});

async function insert(keys: IndexKeys, clear: string, index = byEmail): Promise<string> {
  const id = randomUUID();
  const subject = { kind: 'customer', id: 'C-1' };
  const key = (await keyring.keysToSeal([{ class: 'contact', subject }]))('contact', subject);
  if (key === undefined || key === 'erased') throw new Error('no key');
  const value = (await keys.load([index])).valueOf(index, clear);
  await pool.query('insert into customer values ($1, $2, $3)', [id, sealValue(clear, key, place(id)), value]);
  return id;
}

interface CustomerRow {
  readonly id: string;
  readonly email: string;
}

/** The ids of the customers found, and how many rows had one of the index values. */
async function search(
  keys: IndexKeys,
  wanted: string,
  index = byEmail,
): Promise<{ ids: string[]; candidates: number }> {
  let candidates: CustomerRow[] = [];
  const indexes = await keys.load([index]);
  const found = await indexes.find(
    index,
    wanted,
    async (values) => {
      const { rows } = await pool.query('select id, email from customer where email_index = any($1)', [values]);
      candidates = rows;
      return candidates;
    },
    async (row) => {
      const { key: name } = parseSealed(row.email)!;
      const key = (await keyring.keysToOpen([name]))(name);
      return typeof key === 'object' ? openValue(row.email, key, place(row.id)) : key;
    },
  );
  return { ids: found.map(({ id }) => id), candidates: candidates.length };
}

describe('an index', () => {
  it('case 50: finds a value in another spelling, and no other', async () => {
    const keys = indexKeysOn();
    const ada = await insert(keys, 'İnfo@Straße.example');
    await insert(keys, 'bob@example.com');
    for (const spelling of ['ınfo@STRASSE.example ', 'I\u0307NFO@straße.example', 'ｉnfo@strasse.example']) {
      expect(await search(keys, spelling)).toEqual({ ids: [ada], candidates: 1 });
    }
    expect((await search(keys, 'inf@strasse.example')).ids).toEqual([]);
    expect((await search(keys, '  ')).ids).toEqual([]);
  });

  it('like case 50: opens what a truncated index finds, and answers only what is wanted', async () => {
    const tiny = blindIndex({ name: 'customer-tax-id', class: 'contact', normaliser: taxId, bits: 8 });
    const keys = indexKeysOn();
    const ids = new Map<string, string>();
    for (let n = 0; n < 100; n += 1) ids.set(`${1000 + n}`, await insert(keys, `${1000 + n}`, tiny));
    let candidates = 0;
    for (const [taxNumber, id] of ids) {
      const found = await search(keys, taxNumber, tiny);
      expect(found.ids).toEqual([id]);
      candidates += found.candidates;
    }
    // A hundred values in 256: with this key, or any, some share theirs.
    expect(candidates).toBeGreaterThan(100);
  });

  it('does not answer a row whose index value somebody else has written there', async () => {
    const keys = indexKeysOn();
    const ada = await insert(keys, 'ada@example.com');
    const bob = await insert(keys, 'bob@example.com');
    await owner.query(
      'update customer set email_index = (select email_index from customer where id = $1) where id = $2',
      [ada, bob],
    );
    expect(await search(keys, 'ada@example.com')).toEqual({ ids: [ada], candidates: 2 });
  });

  it('has one first key, also where many make it at once', async () => {
    const processes = Array.from({ length: 8 }, () => indexKeysOn());
    const values = await Promise.all(
      processes.map(async (keys) =>
        (await keys.load([byEmail, byTaxId])).valueOf(byEmail, 'ada@example.com')!.toString('hex'),
      ),
    );
    expect(new Set(values).size).toBe(1);
    const { rows } = await owner.query('select name, version, state from vault.index_key order by name');
    expect(rows).toEqual([
      { name: 'customer-email', version: 1, state: 'active' },
      { name: 'customer-tax-id', version: 1, state: 'active' },
    ]);
    expect(new Set(kms.calls.map(({ context }) => JSON.stringify(context)))).toEqual(
      new Set([JSON.stringify({ vault: 'test', class: 'contact', version: '1', purpose: 'index' })]),
    );
  });

  it('works with a pool of one, because its keys are loaded before the transaction', async () => {
    const indexes = await indexKeysOn(database.pool('sealed_sealer', 1)).load([byEmail]);
    expect(indexes.valueOf(byEmail, 'ada@example.com')).toHaveLength(37);
    expect(indexes.valueOf(byEmail, null)).toBeNull();
  });

  it('asks KMS once for each key, however many load at once, and again after ten minutes', async () => {
    const keys = indexKeysOn();
    await Promise.all(Array.from({ length: 50 }, () => keys.load([byEmail])));
    expect(kms.calls.map(({ call }) => call)).toEqual(['generate']);
    await clock.advance(9 * 60_000);
    await keys.load([byEmail]);
    expect(kms.calls).toHaveLength(1);
    await clock.advance(60_000);
    await Promise.all(Array.from({ length: 50 }, () => keys.load([byEmail])));
    expect(kms.calls.map(({ call }) => call)).toEqual(['generate', 'unwrap']);
  });

  it('is not used with keys that were loaded over five minutes ago, or not at all', async () => {
    const indexes = await indexKeysOn().load([byEmail]);
    const notPrepared = expect.objectContaining({ code: 'KEYS_NOT_PREPARED' }) as Error;
    expect(() => indexes.valueOf(byTaxId, '1')).toThrow(notPrepared);
    await clock.advance(5 * 60_000);
    expect(() => indexes.valueOf(byEmail, 'ada@example.com')).toThrow(notPrepared);
    await expect(
      indexes.find(
        byEmail,
        'ada@example.com',
        async () => [],
        () => null,
      ),
    ).rejects.toThrow(notPrepared);
  });

  it('is denied to a login that was not given it, and to a program that means another class', async () => {
    const denied = { code: 'SEALING_DENIED' };
    const other = blindIndex({ ...byEmail, name: 'customer-iban' });
    await expect(indexKeysOn().load([byEmail, other])).rejects.toMatchObject(denied);
    await expect(indexKeysOn().load([blindIndex({ ...byEmail, class: 'tax' })])).rejects.toMatchObject(denied);
    await expect(indexKeysOn(database.pool('sealed_opener')).load([byEmail])).rejects.toMatchObject(denied);
    await expect(indexKeysOn(database.pool('sealed_ledger')).load([byEmail])).rejects.toMatchObject(denied);
  });

  it('like case 50: finds by an earlier normaliser until its values are gone, and writes by the newest', async () => {
    const careless: Normaliser = { ...email, normalise: (text) => text.toLowerCase() };
    const before = blindIndex({ ...byEmail, normaliser: careless });
    const strict = blindIndex({ ...byEmail, normaliser: { ...email, version: 2 }, earlier: [careless] });
    const keys = indexKeysOn();
    const ada = await insert(keys, 'Ada@example.com', before);
    expect((await search(keys, 'ada@EXAMPLE.com', strict)).ids).toEqual([ada]);
    expect((await search(keys, 'ada@EXAMPLE.com', blindIndex({ ...strict, earlier: [] }))).ids).toEqual([]);
    await backfilled(keys, strict);
    expect((await search(keys, ' ada@EXAMPLE.com', blindIndex({ ...strict, earlier: [] }))).ids).toEqual([ada]);
  });
});

async function backfilled(keys: IndexKeys, index = byEmail, rows = 500): Promise<Backfilled[]> {
  const passes: Backfilled[] = [];
  for (let after: string | null | undefined = null; after !== undefined;) {
    const pass: Backfilled = await backfillIndex({
      pool,
      keyring,
      indexKeys: keys,
      index,
      column: COLUMN,
      after,
      rows,
    });
    passes.push(pass);
    after = pass.next ?? undefined;
  }
  return passes;
}

const rotate = (begin = true): Promise<IndexRotationStep> =>
  rotateIndexKey({
    name: 'test',
    pool: database.pool('sealed_index_rotator', 1),
    kms,
    index: 'customer-email',
    begin,
    hasOlder: (version) => hasOlderValues(pool, COLUMN, version),
  });
/** Ten minutes go by for the vault, and for every process that has keys in memory. */
async function tenMinutes(): Promise<void> {
  await owner.query(`update vault.index_key set state_since = state_since - interval '10 minutes'`);
  await clock.advance(10 * 60_000);
}

describe('the key of an index rotates', () => {
  it('case 50: with both versions searched for meanwhile, in processes that know of it and in those that do not yet', async () => {
    const keys = indexKeysOn();
    const late = indexKeysOn();
    const ada = await insert(keys, 'ada@example.com');
    await late.load([byEmail]);
    const found = async (...of: string[]): Promise<void> => {
      for (const process of [keys, late])
        expect((await search(process, 'ADA@example.com')).ids.toSorted()).toEqual(of.toSorted());
    };

    expect(await rotate()).toBe('added');
    expect(await rotate()).toBe('waiting');
    await found(ada);
    await tenMinutes();
    // Known to be searched for, and not written yet.
    await keys.load([byEmail]);
    const second = await insert(keys, 'ada@example.com');
    expect(await hasOlderValues(pool, COLUMN, 2)).toBe(true);
    await late.load([byEmail]);
    expect(await rotate()).toBe('promoted');
    // One that was loaded before the key was promoted goes on writing the old version; one that starts now writes the new.
    const third = await insert(keys, 'ada@example.com');
    const fourth = await insert(indexKeysOn(), 'ada@example.com');
    await found(ada, second, third, fourth);

    expect(await rotate()).toBe('backfill');
    await tenMinutes();
    expect((await backfilled(keys)).map(({ written }) => written)).toEqual([3]);
    await found(ada, second, third, fourth);
    expect(await rotate()).toBe('destroyed');
    expect(await rotate(false)).toBe('done');
    await tenMinutes();
    await found(ada, second, third, fourth);
    const { rows } = await owner.query(
      'select version, state, wrapped is null as gone from vault.index_key order by version',
    );
    expect(rows).toEqual([
      { version: 1, state: 'destroyed', gone: true },
      { version: 2, state: 'active', gone: false },
    ]);
  });

  it('like case 50: no key is destroyed before all writers know of the new one, though no column holds its values', async () => {
    await indexKeysOn().load([byEmail]);
    await rotate();
    await tenMinutes();
    expect(await rotate()).toBe('promoted');
    expect(await rotate()).toBe('waiting');
    await tenMinutes();
    expect(await rotate()).toBe('destroyed');
  });

  it('once, however many begin at the same time', async () => {
    await indexKeysOn().load([byEmail]);
    const steps = await Promise.all(Array.from({ length: 5 }, () => rotate()));
    expect(steps.filter((step) => step === 'added')).toHaveLength(1);
    const { rows } = await owner.query('select version, state from vault.index_key order by version');
    expect(rows).toEqual([
      { version: 1, state: 'active' },
      { version: 2, state: 'next' },
    ]);
  });

  it('not before there is one', async () => {
    await expect(rotate()).rejects.toMatchObject({ code: 'SEALING_KEY_UNKNOWN' });
  });

  it('in batches that go on where they were interrupted, and leave what cannot be opened', async () => {
    const keys = indexKeysOn();
    for (let n = 0; n < 7; n += 1) await insert(keys, `c-${n}@example.com`);
    const [moved, gone, changed] = (await owner.query('select id, email from customer order by id limit 3')).rows;
    await owner.query('update customer set email = $2 where id = $1', [moved.id, gone.email]);
    await owner.query(`update customer set email = 'erased.1', email_index = null where id = $1`, [gone.id]);
    await owner.query('update customer set email_index = null where id = $1', [changed.id]);
    await rotate();
    await tenMinutes();
    await rotate();
    const fresh = indexKeysOn();
    const passes = await backfilled(fresh, byEmail, 3);
    expect(passes.map(({ written }) => written)).toEqual([1, 3, 1]);
    expect(passes[0]!.left).toEqual({ SEALING_TAMPERED: 1, erased: 1 });
    expect((await backfilled(fresh)).map(({ written }) => written)).toEqual([0]);
    expect(await rotate()).toBe('backfill');
  });

  it('without writing over what somebody else changes meanwhile', async () => {
    const keys = indexKeysOn();
    const id = await insert(keys, 'ada@example.com');
    const other = await insert(keys, 'bob@example.com');
    await owner.query('update customer set email_index = null');
    const interrupting: Keyring = {
      ...keyring,
      async keysToOpen(names) {
        await owner.query('update customer set email = null where id = $1', [id]);
        return keyring.keysToOpen(names);
      },
    };
    const pass = await backfillIndex({
      pool,
      keyring: interrupting,
      indexKeys: keys,
      index: byEmail,
      column: COLUMN,
      after: null,
    });
    expect(pass).toEqual({ written: 1, left: { changed: 1 }, next: null });
    const { rows } = await owner.query('select id from customer where email_index is not null');
    expect(rows).toEqual([{ id: other }]);
  });

  it('not at all while KMS is away, instead of passing rows over', async () => {
    const keys = indexKeysOn();
    await insert(keys, 'ada@example.com');
    await owner.query('update customer set email_index = null');
    const away = fakeKms();
    away.failure = 'SEALING_UNAVAILABLE';
    const cold = createKeyring({ name: 'test', vault: postgresVault(pool), kms: away });
    const pass = backfillIndex({ pool, keyring: cold, indexKeys: keys, index: byEmail, column: COLUMN, after: null });
    await expect(pass).rejects.toMatchObject({ code: 'SEALING_UNAVAILABLE' });
  });
});
