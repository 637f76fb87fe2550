import { describe, expect, it } from 'vitest';
import {
  createKeyring,
  type Keyring,
  postgresRotation,
  postgresVault,
  type Vault,
} from '../../../shared/sealing/index.ts';
import type { WrappedSubject } from '../../../shared/sealing/rotation/rotation-vault.ts';
import { testDatabase } from '../../support/database.ts';
import { fakeKms } from '../../support/keyring.ts';
import { movedClock } from '../../support/moved-clock.ts';
import { recordingLog, recordingMetrics } from '../../support/recorders.ts';
import {
  ageRetired,
  branchesOf,
  closed,
  giveClass,
  person,
  rotate,
  rotationOn,
  sealFor,
  type SealedValue,
} from '../../support/rotation.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const sealer = database.pool('sealed_sealer', 4);
const rotator = database.pool('sealed_rotator', 2);
const kms = fakeKms();
const rotation = rotationOn(rotator, { kms });
const vault = postgresVault(sealer);
const ring = (more: Partial<Parameters<typeof createKeyring>[0]> = {}): Keyring =>
  createKeyring({ name: 'test', vault, kms, ...more });
const MINUTE = 60_000;

/** Values of that many persons of a class that nobody has used before; its canary is there. */
async function sealed(className: string, persons: number): Promise<SealedValue[]> {
  await giveClass(owner, className);
  const writer = ring();
  const ids = Array.from({ length: persons }, (_, index) => `${className}-${index}`);
  await writer.keysToSeal(ids.map((id) => person(className, id)));
  await rotate(rotation);
  return Promise.all(ids.map((id) => sealFor(writer, className, id)));
}

describe('a branch key', () => {
  it('is replaced at 90 days by the clock of the database, no day earlier, and what was sealed before opens', async () => {
    const values = await sealed('aged', 4);
    expect(await rotate(rotation)).toMatchObject({ rotated: [], retired: [], failed: false });
    await owner.query(`update vault.branch_key set created_at = now() - interval '89 days' where class = 'aged'`);
    expect((await rotate(rotation)).rotated).toEqual([]);
    await owner.query(`update vault.branch_key set created_at = now() - interval '91 days' where class = 'aged'`);
    expect(await rotate(rotation)).toMatchObject({ rotated: ['aged 2'], rewrapped: 5, retired: ['aged 1'] });
    expect(await branchesOf(owner, 'aged')).toEqual(['1 retired 0', '2 active 5']);
    expect(await closed(ring(), values)).toEqual([]);
  });

  it('is destroyed an hour after it was retired, and not a run before', async () => {
    const values = await sealed('gone', 4);
    await rotate(rotation, { now: ['gone'] });
    await owner.query(
      `update vault.branch_key set retired_at = now() - interval '59 minutes' where class = 'gone' and version = 1`,
    );
    expect((await rotate(rotation)).destroyed).toEqual([]);
    await owner.query(
      `update vault.branch_key set retired_at = now() - interval '61 minutes' where class = 'gone' and version = 1`,
    );
    expect(await rotate(rotation)).toMatchObject({ destroyed: ['gone 1'], retired: [] });
    expect(await branchesOf(owner, 'gone')).toEqual(['1 destroyed 0', '2 active 5']);
    expect(await closed(ring(), values)).toEqual([]);
  });

  it('is not destroyed while a key is wrapped with it, and a key that does not open is said and stays', async () => {
    const values = await sealed('broken', 3);
    await owner.query(
      `update vault.subject_key set wrapped = set_byte(wrapped, 40, get_byte(wrapped, 40) # 1) where subject_id = 'broken-1'`,
    );
    await rotate(rotation, { now: ['broken'] });
    await ageRetired(owner);
    const log = recordingLog();
    expect(await rotate(rotation, { log })).toMatchObject({ broken: 1, destroyed: [], failed: true });
    expect(log.lines).toContainEqual(
      expect.objectContaining({
        level: 'error',
        fields: expect.objectContaining({ error: expect.objectContaining({ code: 'SEALING_TAMPERED' }) }),
      }),
    );
    expect(await branchesOf(owner, 'broken')).toEqual(['1 retired 1', '2 active 3']);
    expect(await closed(ring(), values)).toEqual(['of broken-1: SEALING_TAMPERED']);
  });

  it('like case 47: is not replaced while KMS is throttled, other classes go on, and the next run does it', async () => {
    await sealed('slow', 2);
    await giveClass(owner, 'slow', 'aged');
    const throttled = {
      ...kms,
      generate: () => Promise.reject(Object.assign(new Error('x'), { code: 'SEALING_THROTTLED' })),
    };
    const log = recordingLog();
    const report = await rotate(rotation, { kms: throttled, log, now: ['slow'] });
    expect(report).toMatchObject({ rotated: [], failed: true });
    expect(log.lines).toContainEqual(
      expect.objectContaining({ fields: { key: 'slow 1', error: { name: 'Error', code: 'SEALING_THROTTLED' } } }),
    );
    expect(await rotate(rotation, { now: ['slow'] })).toMatchObject({ rotated: ['slow 2'], failed: false });
  });

  it('like case 44: several that replace it at once make one', async () => {
    const values = await sealed('raced', 3);
    const branches = await rotation.vault.branches();
    const together = { ...rotation.vault, branches: async () => branches };
    const reports = await Promise.all([1, 2, 3].map(() => rotate(rotation, { vault: together, now: ['raced'] })));
    expect(reports.map(({ failed }) => failed)).toEqual([false, false, false]);
    expect(reports.flatMap(({ rotated }) => rotated)).toEqual(['raced 2']);
    expect(await rotate(rotation)).toMatchObject({ failed: false });
    expect(await branchesOf(owner, 'raced')).toEqual(['1 retired 0', '2 active 4']);
    expect(await closed(ring(), values)).toEqual([]);
  });

  it('that nobody may replace is said', async () => {
    await giveClass(owner, 'aged');
    const log = recordingLog();
    expect(await rotate(rotation, { now: ['gone'], log })).toMatchObject({ rotated: [], failed: true });
    expect(log.lines[0]?.fields).toMatchObject({ key: 'gone', error: { code: 'SEALING_KEY_UNKNOWN' } });
  });
});

describe('keys of persons', () => {
  it('are wrapped anew as long as the time lasts, and the next run goes on', async () => {
    const values = await sealed('paged', 9);
    let now = 0;
    const clock = { monotonic: () => (now += 10), sleep: async () => {} };
    const metrics = recordingMetrics();
    const first = await rotate(rotation, { now: ['paged'], clock, budgetMs: 1, metrics });
    expect(first).toMatchObject({ rewrapped: 3, retired: ['paged 1'] });
    expect(await branchesOf(owner, 'paged')).toEqual(['1 retired 7', '2 active 3']);
    expect(await closed(ring(), values)).toEqual([]);
    expect(await rotate(rotation, { metrics })).toMatchObject({ rewrapped: 7 });
    expect(metrics.sum('KeysRewrapped')).toBe(10);
    expect(await closed(ring(), values)).toEqual([]);
  });

  it('rest as long as they worked, so that others come to their turn', async () => {
    await sealed('resting', 9);
    let now = 0;
    const slept: number[] = [];
    const clock = {
      monotonic: () => (now += 10),
      sleep: async (ms: number) => {
        slept.push(ms);
      },
    };
    await rotate(rotation, { now: ['resting'], clock, rest: 2 });
    expect(slept.length).toBeGreaterThanOrEqual(3);
    expect(Math.min(...slept)).toBeGreaterThan(0);
  });

  it('that are created under the old branch key while it is replaced are found by a later run', async () => {
    const values = await sealed('late', 4);
    const gate = Promise.withResolvers<void>();
    const wrapped = Promise.withResolvers<void>();
    const held: Vault = {
      ...vault,
      createSubjects: async (rows) => {
        wrapped.resolve();
        await gate.promise;
        return vault.createSubjects(rows);
      },
    };
    const late = sealFor(ring({ vault: held }), 'late', 'late-comer');
    await wrapped.promise;
    await rotate(rotation, { now: ['late'] });
    await ageRetired(owner);
    gate.resolve();
    values.push(await late);
    expect(await branchesOf(owner, 'late')).toEqual(['1 retired 1', '2 active 5']);
    expect(await closed(ring(), values)).toEqual([]);
    expect(await rotate(rotation)).toMatchObject({ rewrapped: 1, destroyed: ['late 1'] });
    expect(await closed(ring(), values)).toEqual([]);
  });

  it('are refused under a branch key that is destroyed, and the next try takes the active one', async () => {
    await sealed('frozen', 2);
    const thawed = Promise.withResolvers<void>();
    let attempts = 0;
    const frozen: Vault = {
      ...vault,
      createSubjects: async (rows) => {
        attempts += 1;
        await thawed.promise;
        return vault.createSubjects(rows);
      },
    };
    const writer = ring({ vault: frozen });
    const sealing = sealFor(writer, 'frozen', 'frozen-writer');
    await expect.poll(() => attempts).toBe(1);
    await rotate(rotation, { now: ['frozen'] });
    await ageRetired(owner);
    expect((await rotate(rotation)).destroyed).toEqual(['frozen 1']);
    thawed.resolve();
    await expect(sealing).rejects.toMatchObject({ code: 'SEALING_UNAVAILABLE' });
    expect(await closed(ring(), [await sealFor(writer, 'frozen', 'frozen-writer')])).toEqual([]);
  });

  it('are looked up in an index each, however many the table holds', async () => {
    await sealed('many', 1);
    await owner.query(
      `insert into vault.subject_key (class, key_id, version, subject_kind, subject_id, branch_version, wrapped)
       select 'many', left(md5(n::text), 21) || 'A', 1, 'person', 'many ' || n, 1, decode('01' || repeat('00', 64), 'hex') from generate_series(1, 5000) as n`,
    );
    await owner.query('analyze vault.subject_key');
    const client = await database.client('sealed_rotator');
    const rotating = postgresRotation(client);
    await client.query('begin');
    const page = await rotating.page('subject_key', { class: 'many', version: 1 }, null, 300);
    const again = page.rows.map((row): [WrappedSubject, Uint8Array] => [row, row.wrapped]);
    const scans = async (): Promise<number> =>
      (await client.query(`select pg_stat_get_xact_numscans('vault.subject_key'::regclass)::int as n`)).rows[0].n;
    const before = await scans();
    expect(await rotating.rewrapSubjects('subject_key', again, 1)).toBe(300);
    expect(await scans()).toBe(before);
    await client.query('rollback');
  });

  it('are joined with nothing: whatever the statistics say, no key is compared with each new wrapping', async () => {
    await sealed('joined', 1);
    const client = await database.client('sealed_rotator');
    const { rows } = await postgresRotation(client).page('subject_key', { class: 'joined', version: 1 }, null, 10);
    const again = rows.map((row): [WrappedSubject, Uint8Array] => [row, row.wrapped]);
    expect(again).toHaveLength(2);
    const plans: { readonly Plan: { readonly Plans: Record<string, unknown>[] } }[] = [];
    const explained = postgresRotation({
      async query(text, values) {
        plans.push((await client.query(`explain (format json) ${text}`, values)).rows[0]['QUERY PLAN'][0]);
        return { rows: [], rowCount: null };
      },
    });
    await explained.rewrapSubjects('subject_key', again, 1);
    const updated = plans.flatMap(({ Plan }) => Plan.Plans.filter((node) => node['Parent Relationship'] === 'Outer'));
    expect(updated.map((node) => node['Relation Name'])).toEqual(['subject_key']);
  });

  it('are wrapped anew version by version: one that does not open stays as it is beside the others of its id', async () => {
    const values = await sealed('versions', 2);
    const { keyId } = values[0]!.key;
    // A copy: that it is version 1 is bound to its bytes.
    await owner.query(
      `insert into vault.subject_key (class, key_id, version, subject_kind, subject_id, branch_version, wrapped)
       select class, key_id, 2, subject_kind, subject_id, branch_version, wrapped from vault.subject_key where key_id = $1`,
      [keyId],
    );
    expect(await rotate(rotation, { now: ['versions'], page: 100 })).toMatchObject({ rewrapped: 3, broken: 1 });
    const { rows } = await owner.query(
      'select version, branch_version from vault.subject_key where key_id = $1 order by version',
      [keyId],
    );
    expect(rows).toEqual([
      { version: 1, branch_version: 2 },
      { version: 2, branch_version: 1 },
    ]);
    expect(await closed(ring(), values)).toEqual([]);
    await owner.query('delete from vault.subject_key where key_id = $1 and version = 2', [keyId]);
  });

  it('case 48: of a person that is erased in the middle stay erased', async () => {
    const values = await sealed('erased', 6);
    const erase = (id: string) =>
      owner.query(`update vault.subject_key set wrapped = null where subject_id = $1`, [id]);
    const isFirstOf = new Set(['erased-0', 'erased-3']);
    const overtaken = {
      ...rotation.vault,
      rewrapSubjects: async (...args: Parameters<typeof rotation.vault.rewrapSubjects>) => {
        for (const [row] of args[1]) if (isFirstOf.has(row.subject.id)) await erase(row.subject.id);
        return rotation.vault.rewrapSubjects(...args);
      },
    };
    expect(await rotate(rotation, { now: ['erased'], vault: overtaken })).toMatchObject({ failed: false });
    const { rows } = await owner.query(
      `select count(*)::int as n from vault.subject_key where class = 'erased' and wrapped is null`,
    );
    expect(rows).toEqual([{ n: 2 }]);
    expect((await closed(ring(), values)).map((line) => line.split(': ')[1])).toEqual(['erased', 'erased']);
    await ageRetired(owner);
    expect((await rotate(rotation)).destroyed).toEqual(['erased 1']);
  });

  it('that are only kept because they must be are wrapped anew, and open for whoever may open them', async () => {
    const [value] = await sealed('kept', 3);
    const { keyId } = value!.key;
    await owner.query(
      `insert into vault.restricted_key (class, key_id, version, subject_kind, subject_id, subject_hmac, branch_version, wrapped, keep_until)
       select class, key_id, version, subject_kind, subject_id, sha256(''), branch_version, wrapped, now() + interval '9 years'
         from vault.subject_key where key_id = $1`,
      [keyId],
    );
    await owner.query('update vault.subject_key set wrapped = null where key_id = $1', [keyId]);
    await rotate(rotation, { now: ['kept'], vault: { ...rotation.vault, rewrapSubjects: async () => 0 } });
    await ageRetired(owner);
    expect(await rotation.vault.destroyBranch({ class: 'kept', version: 1 })).toBe(false);
    expect(await rotate(rotation)).toMatchObject({ rewrapped: 4, destroyed: ['kept 1'], failed: false });
    const { rows } = await owner.query('select branch_version from vault.restricted_key where key_id = $1', [keyId]);
    expect(rows).toEqual([{ branch_version: 2 }]);
    expect(await closed(ring(), [value!])).toEqual(['of kept-0: erased']);
    await owner.query(
      'update vault.subject_key k set wrapped = r.wrapped, branch_version = r.branch_version from vault.restricted_key r where r.key_id = k.key_id and k.key_id = $1',
      [keyId],
    );
    expect(await closed(ring(), [value!])).toEqual([]);
  });

  it('like case 48: of a person that is just being erased are passed over, without a wait', async () => {
    const values = await sealed('held', 3);
    const eraser = await database.client('sealed_migrator');
    await eraser.query('begin');
    await eraser.query(`update vault.subject_key set wrapped = null where subject_id = 'held-1'`);
    expect(await rotate(rotation, { now: ['held'] })).toMatchObject({ rewrapped: 3, failed: false });
    await eraser.query('commit');
    expect(await closed(ring(), values)).toEqual(['of held-1: erased']);
    await ageRetired(owner);
    expect((await rotate(rotation)).destroyed).toEqual(['held 1']);
  });
});

describe('five rotations under load', () => {
  it('lose nothing: writers write, readers read with what they have in memory', async () => {
    const values: SealedValue[] = await sealed('load', 20);
    const lost: string[] = [];
    const turns: Record<string, number> = {};
    let over = false;
    /** Again where the vault says that it may work later, as a caller of `prepare` does. */
    const retried = async (writer: Keyring, id: string): Promise<SealedValue> => {
      for (;;) {
        try {
          return await sealFor(writer, 'load', id);
        } catch (error) {
          if ((error as { code?: string }).code !== 'SEALING_UNAVAILABLE') throw error;
        }
      }
    };
    const work = async (name: string, minutes: number): Promise<void> => {
      const clock = movedClock();
      const own = ring({ clock });
      // oxlint-disable-next-line no-unmodified-loop-condition -- the test ends it
      for (let turn = 0; !over; turns[name] = turn += 1) {
        // New persons and such that are there; old values and young ones.
        const id = turn % 3 === 0 ? `load-${turn % 20}` : `${name}-${turn}`;
        values.push(await retried(own, id));
        lost.push(...(await closed(own, [...values.slice(turn % 7, (turn % 7) + 20), ...values.slice(-5)])));
        await clock.advance(minutes * MINUTE);
      }
    };
    const allHaveWorked = async (): Promise<void> => {
      const before = { ...turns };
      await expect
        .poll(() => ['steady', 'hasty', 'lazy'].every((name) => (turns[name] ?? 0) > (before[name] ?? 0) + 1))
        .toBe(true);
    };
    const workers = [work('steady', 0), work('hasty', 1), work('lazy', 9)];
    const rotated: string[] = [];
    for (let n = 0; n < 5; n += 1) {
      rotated.push(...(await rotate(rotation, { now: ['load'], page: 25 })).rotated);
      await allHaveWorked();
      await ageRetired(owner);
      await rotate(rotation, { page: 25 });
      await allHaveWorked();
    }
    over = true;
    await Promise.all(workers);
    expect(rotated).toEqual([2, 3, 4, 5, 6].map((version) => `load ${version}`));
    await ageRetired(owner);
    const last = await rotate(rotation, { page: 1000 });
    expect(last).toMatchObject({ failed: false, retired: [] });
    expect(lost).toEqual([]);
    expect(await closed(ring(), values)).toEqual([]);
    const { rows } = await owner.query(`select count(*)::int as keys from vault.subject_key where class = 'load'`);
    expect(await branchesOf(owner, 'load')).toEqual([
      ...[1, 2, 3, 4, 5].map((version) => `${version} destroyed 0`),
      `6 active ${rows[0].keys}`,
    ]);
  });
});
