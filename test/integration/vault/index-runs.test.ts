import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  type VaultPool,
  blindIndex,
  createIndexKeys,
  createKeyring,
  email,
  type IndexedColumn,
  postgresIndexVault,
  postgresVault,
  sealValue,
} from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { ageIndexKeys, indexKeysOf, runIndexesOn } from '../../support/index-runs.ts';
import { fakeKms } from '../../support/keyring.ts';
import { recordingLog, recordingMetrics } from '../../support/recorders.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_sealer');
const keeper = database.pool('sealed_keeper', 1);
const kms = fakeKms();
const ring = createKeyring({ name: 'test', vault: postgresVault(writer), kms });

const byEmail = blindIndex({ name: 'customer-email', class: 'contact', normaliser: email });
const COLUMN: IndexedColumn = {
  store: 'test',
  table: 'customer',
  relation: 'public.customer',
  primaryKey: 'id',
  sealed: 'email',
  index: 'email_index',
};
const indexes = [{ index: byEmail, columns: [COLUMN] }];
const run = (more: Partial<Parameters<typeof runIndexesOn>[1]> = {}) =>
  runIndexesOn(keeper, { name: 'test', kms, indexes, ...more });

beforeAll(async () => {
  await owner.query(`
    create table customer (id uuid primary key, email text, email_index bytea);
    create index on customer (email_index);
    grant select, insert, update on customer to sealed_sealer, sealed_keeper`);
  for (const user of ['sealed_sealer', 'sealed_keeper']) {
    await owner.query(`select vault.set_access($1, '{}', '{contact}')`, [user]);
    await owner.query(`select vault.set_index_access($1, '{"customer-email": "contact"}')`, [user]);
  }
});
beforeEach(async () => {
  await owner.query('truncate vault.index_key; truncate customer');
  kms.failure = null;
});

/** Rows with a sealed e-mail, and with an index value or none. */
async function customers(count: number, indexed = true): Promise<string[]> {
  const subject = { kind: 'customer', id: 'C-1' };
  const key = (await ring.keysToSeal([{ class: 'contact', subject }]))('contact', subject);
  if (typeof key !== 'object') throw new Error('no key');
  const keys = createIndexKeys({ name: 'test', vault: postgresIndexVault(writer), kms });
  const ids = Array.from({ length: count }, () => randomUUID());
  for (const id of ids) {
    const place = { in: 'row', store: 'test', table: 'customer', primaryKey: id, column: 'email' } as const;
    const clear = `${id}@example.com`;
    const value = indexed ? (await keys.load([byEmail])).valueOf(byEmail, clear) : null;
    await writer.query('insert into customer values ($1, $2, $3)', [id, sealValue(clear, key, place), value]);
  }
  return ids;
}

/** How many rows have a value of which key version. */
async function versions(): Promise<Record<string, number>> {
  const { rows } = await owner.query(
    `select coalesce(get_byte(email_index, 3)::text, 'none') as version, count(*)::integer as rows from customer group by 1`,
  );
  return Object.fromEntries(rows.map(({ version, rows: count }) => [version, count]));
}

describe('a run over blind indexes', () => {
  it('does nothing where keys are young and columns up to date, and asks KMS nothing', async () => {
    await customers(2);
    kms.calls.length = 0;
    const metrics = recordingMetrics();
    expect(await run({ metrics })).toEqual({ steps: [], written: 0, left: {}, failed: false });
    expect(kms.calls).toEqual([]);
    expect(metrics.sum('IndexRotationLag')).toBe(0);
  });

  it.each([
    ['because somebody asks', { now: ['customer-email'] }],
    ['because the key is old', { keySeconds: 3_000 }],
    ['because another KMS key has wrapped it', { kmsKey: 'another' }],
  ])('takes a key to its end, %s', async (_why, due) => {
    await customers(5);
    await ageIndexKeys(owner, '1 hour');
    expect((await run(due)).steps).toEqual(['customer-email added']);
    // What has begun goes on by itself.
    expect((await run()).steps).toEqual(['customer-email waiting']);
    await ageIndexKeys(owner);
    expect(await run({ page: 2 })).toMatchObject({
      steps: ['customer-email promoted', 'customer-email waiting'],
      written: 5,
    });
    expect(await versions()).toEqual({ 2: 5 });
    await ageIndexKeys(owner);
    expect((await run()).steps).toEqual(['customer-email destroyed']);
    expect(await indexKeysOf(owner, 'customer-email')).toBe('2 active');
    expect((await run()).steps).toEqual([]);
  });

  it('ends with its time and goes on in the next run', async () => {
    await customers(6, false);
    let now = 0;
    // Each batch takes a second of the two that there are.
    const clock = {
      monotonic: () => now,
      sleep: async (ms: number): Promise<void> => void (now += ms),
    };
    const ticking: VaultPool = {
      totalCount: 1,
      query: (statement, values) => {
        if (typeof statement === 'string' && statement.includes('update "public"."customer"')) now += 1_000;
        return keeper.query(statement as string, values);
      },
    };
    const limited = () => runIndexesOn(ticking, { name: 'test', kms, indexes, clock, page: 2, budgetMs: 2_000 });
    expect(await limited()).toMatchObject({ written: 4, failed: false });
    expect(await versions()).toEqual({ 1: 4, none: 2 });
    expect(await limited()).toMatchObject({ written: 2 });
  });

  it('fills a column that is new, and makes the first key where nobody has', async () => {
    await customers(3, false);
    expect(await run()).toMatchObject({ steps: [], written: 3, failed: false });
    expect(await versions()).toEqual({ 1: 3 });
  });

  it('says which rows do not open, how many and why, keeps the key that they need, and names none of them', async () => {
    const [first, second] = await customers(3);
    await owner.query('update customer set email = (select email from customer where id = $1) where id = $2', [
      first,
      second,
    ]);
    await run({ now: ['customer-email'] });
    await ageIndexKeys(owner);
    await run();
    await ageIndexKeys(owner);
    const log = recordingLog();
    const metrics = recordingMetrics();
    expect(await run({ log, metrics })).toMatchObject({ left: { SEALING_TAMPERED: 1 }, failed: true });
    expect(metrics.sum('IndexRowsClosed')).toBe(1);
    expect(metrics.sum('IndexRotationLag')).toBeGreaterThanOrEqual(600);
    expect(await indexKeysOf(owner, 'customer-email')).toBe('1 retired, 2 active');
    expect(JSON.stringify(log.lines)).not.toMatch(new RegExp(`${first}|${second}`));
  });

  it('passes over persons who are erased', async () => {
    const [gone] = await customers(2, false);
    await owner.query(`update customer set email = 'erased.1' where id = $1`, [gone]);
    expect(await run()).toMatchObject({ written: 1, left: {}, failed: false });
    expect(await run()).toMatchObject({ written: 0, left: {} });
  });

  it('logs what fails, with its code, and looks after the other indexes all the same', async () => {
    await customers(1, false);
    const other = blindIndex({ ...byEmail, name: 'customer-other' });
    const broken = { index: other, columns: [{ ...COLUMN, relation: 'public.not_there' }] };
    const log = recordingLog();
    const report = await run({ indexes: [broken, ...indexes], now: ['customer-phone'], log });
    expect(report).toMatchObject({ written: 1, failed: true });
    expect(log.lines.filter(({ level }) => level === 'error').map(({ fields }) => fields)).toEqual([
      { index: 'customer-other', error: { name: 'error', code: '42P01' } },
      { index: 'customer-phone', error: { name: 'SealingError', code: 'SEALING_KEY_UNKNOWN' } },
    ]);
  });

  it('measures nothing where the state of an index cannot be read, rather than that all is well', async () => {
    await customers(1);
    const metrics: string[] = [];
    const away: VaultPool = {
      totalCount: 1,
      query: async (statement, values) => {
        if (typeof statement === 'string' && statement.includes('"rotatingFor"'))
          throw Object.assign(new Error('gone'), { code: 'ECONNRESET' });
        return keeper.query(statement as string, values);
      },
    };
    const recording = { add: (name: string) => void metrics.push(name) };
    expect(await runIndexesOn(away, { name: 'test', kms, indexes, metrics: recording })).toMatchObject({
      failed: true,
    });
    expect(metrics).toEqual(['IndexRowsWritten', 'IndexRowsClosed']);
    await run({ metrics: recording });
    expect(metrics.slice(2)).toEqual(['IndexRowsWritten', 'IndexRowsClosed', 'IndexKeyAge', 'IndexRotationLag']);
  });

  it('leaves rows for later while KMS is away, and never rejects', async () => {
    await customers(2, false);
    await run();
    await owner.query('update customer set email_index = null');
    kms.failure = 'SEALING_UNAVAILABLE';
    expect(await run()).toMatchObject({ written: 0, left: {}, failed: true });
    kms.failure = null;
    expect(await run()).toMatchObject({ written: 2, failed: false });
  });

  it('is done once, however many run at the same time', async () => {
    await customers(4);
    const pools = Array.from({ length: 3 }, () => database.pool('sealed_keeper', 1));
    const together = () =>
      Promise.all(pools.map((pool) => runIndexesOn(pool, { name: 'test', kms, indexes, now: ['customer-email'] })));
    await together();
    expect(await indexKeysOf(owner, 'customer-email')).toBe('1 active, 2 next');
    await ageIndexKeys(owner);
    const reports = await together();
    expect(reports.reduce((sum, { written }) => sum + written, 0)).toBe(4);
    expect(await versions()).toEqual({ 2: 4 });
  });
});
