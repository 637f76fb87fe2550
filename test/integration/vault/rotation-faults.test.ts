import type pg from 'pg';
import { describe, expect, it } from 'vitest';
import {
  createKeyring,
  type Keyring,
  postgresRotation,
  postgresVault,
  renewSubjectKey,
} from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { fakeKms } from '../../support/keyring.ts';
import { movedClock } from '../../support/moved-clock.ts';
import {
  ageRetired,
  branchesOf,
  closed,
  giveClass,
  person,
  rotate,
  rotationOn,
  sealFor,
} from '../../support/rotation.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const sealer = database.pool('sealed_sealer', 4);
const kms = fakeKms();
const rotation = rotationOn(database.pool('sealed_rotator', 2), { kms });
const ring = (clock?: ReturnType<typeof movedClock>): Keyring =>
  createKeyring({ name: 'test', vault: postgresVault(sealer), kms, ...(clock && { clock }) });

/** Counts calls, and dies at one of them, before or after it had its effect; a dead process does nothing any more. */
function mortal(at: number, when: 'before' | 'after') {
  let calls = 0;
  let dead = false;
  const wrap = <T extends object>(port: T): T =>
    new Proxy(port, {
      get(target, name) {
        const call: unknown = Reflect.get(target, name);
        if (typeof call !== 'function') return call;
        return async (...args: unknown[]) => {
          if (dead) throw new Error('dead');
          const isLast = calls === at;
          calls += 1;
          if (isLast && when === 'before') dead = true;
          if (dead) throw new Error('dead');
          const answer: unknown = await Reflect.apply(call, target, args);
          if (isLast) dead = true;
          if (dead) throw new Error('dead');
          return answer;
        };
      },
    });
  return { wrap, died: () => dead };
}

const waitsFor = async (client: pg.Client & { readonly processID?: number }): Promise<void> => {
  const { processID } = client;
  await expect
    .poll(async () => (await owner.query('select cardinality(pg_blocking_pids($1)) as n', [processID])).rows[0].n)
    .toBeGreaterThan(0);
};

describe('a run that dies', () => {
  it.each(['before', 'after'] as const)(
    '%s any of its calls loses nothing, and the next one ends what it began',
    async (when) => {
      const className = `dies-${when}`;
      await giveClass(owner, className);
      const values = await Promise.all([1, 2, 3, 4].map((n) => sealFor(ring(), className, `D-${n}`)));
      let at = 0;
      for (let died = true; died; at += 1) {
        await ageRetired(owner);
        await owner.query('update vault.canary set opened_at = null');
        const { wrap, died: isDead } = mortal(at, when);
        const { vault, keys } = rotation;
        await rotate(rotation, {
          vault: wrap(vault),
          keys: wrap(keys),
          kms: wrap(kms),
          now: [className],
          page: 2,
        }).catch((error: unknown) => expect(error).toMatchObject({ message: 'dead' }));
        died = isDead();
        expect(await closed(ring(), values)).toEqual([]);
        await ageRetired(owner);
        expect(await rotate(rotation)).toMatchObject({ failed: false, retired: [] });
        const branches = await branchesOf(owner, className);
        expect(branches.filter((branch) => !/^\d+ destroyed 0$/.test(branch))).toEqual([
          expect.stringMatching(/^\d+ active 5$/),
        ]);
        expect(await closed(ring(), values)).toEqual([]);
      }
      // All of it was gone through: looking, replacing, the canary, three pages, destroying.
      expect(at).toBeGreaterThan(20);
    },
  );
});

describe('a branch key that is being destroyed', () => {
  const insert = (branch: number, id: string): string =>
    `insert into vault.subject_key (class, key_id, version, subject_kind, subject_id, branch_version, wrapped)
     values ('doomed', '${id.padEnd(21, 'A')}A', 1, 'customer', '${id}', ${branch}, decode(repeat('00', 65), 'hex'))`;
  const ready = async (): Promise<{ writer: pg.Client; rotator: pg.Client; retired: number }> => {
    await giveClass(owner, 'doomed');
    await sealFor(ring(), 'doomed', 'D-1');
    await rotate(rotation, { now: ['doomed'] });
    await rotate(rotation, { now: ['doomed'] });
    await ageRetired(owner);
    const { rows } = await owner.query(
      `select max(version) - 1 as retired from vault.branch_key where class = 'doomed'`,
    );
    return {
      writer: await database.client('sealed_sealer'),
      rotator: await database.client('sealed_rotator'),
      retired: rows[0].retired,
    };
  };

  it('stays where a writer has just used it', async () => {
    const { writer, rotator, retired } = await ready();
    await writer.query('begin');
    await writer.query(insert(retired, 'W-1'));
    const destroying = postgresRotation(rotator).destroyBranch({ class: 'doomed', version: retired });
    await waitsFor(rotator);
    await writer.query('commit');
    expect(await destroying).toBe(false);
    await owner.query(`update vault.subject_key set wrapped = null where subject_id = 'W-1'`);
  });

  it('goes where a writer comes too late, and the writer is refused', async () => {
    const { writer, rotator, retired } = await ready();
    await rotator.query('begin');
    expect(await postgresRotation(rotator).destroyBranch({ class: 'doomed', version: retired })).toBe(true);
    const writing = writer.query(insert(retired, 'W-2')).then(
      () => 'written',
      (error: unknown) => (error as { readonly code?: string }).code,
    );
    await waitsFor(writer);
    await rotator.query('commit');
    expect(await writing).toBe('VA001');
  });
});

describe('the key of a person that may have become known', () => {
  it('gets a new version: what is sealed from now on uses it, what was sealed before opens', async () => {
    await giveClass(owner, 'known');
    const clock = movedClock();
    const writer = ring(clock);
    const before = await sealFor(writer, 'known', 'K-1');
    expect(await renewSubjectKey(rotation, 'known', person('known', 'K-1').subject)).toBe(2);
    const cached = await sealFor(writer, 'known', 'K-1');
    await clock.advance(5 * 60_000);
    const after = await sealFor(writer, 'known', 'K-1');
    expect([before, cached, after].map(({ key }) => key.version)).toEqual([1, 1, 2]);
    expect(after.key.keyId).toBe(before.key.keyId);
    expect(await closed(ring(), [before, cached, after])).toEqual([]);
    const { rows } = await owner.query(
      `select count(distinct wrapped)::int as n from vault.subject_key where subject_id = 'K-1'`,
    );
    expect(rows).toEqual([{ n: 2 }]);
  });

  it('keeps all its versions through a rotation, and loses all by an erasure', async () => {
    await giveClass(owner, 'both');
    const { subject } = person('both', 'B-1');
    const values = [await sealFor(ring(), 'both', 'B-1')];
    await renewSubjectKey(rotation, 'both', subject);
    values.push(await sealFor(ring(), 'both', 'B-1'));
    expect(await rotate(rotation, { now: ['both'] })).toMatchObject({ rewrapped: 2 });
    await ageRetired(owner);
    expect((await rotate(rotation)).destroyed).toEqual(['both 1']);
    expect(await closed(ring(), values)).toEqual([]);
    await owner.query(`update vault.subject_key set wrapped = null where subject_id = 'B-1'`);
    expect(await closed(ring(), values)).toEqual(['of B-1: erased', 'of B-1: erased']);
    expect(await renewSubjectKey(rotation, 'both', subject)).toBe('erased');
  });

  it('like case 48: is not brought back by a version that comes in while the person is erased', async () => {
    await giveClass(owner, 'between');
    const value = await sealFor(ring(), 'between', 'E-1');
    const { subject } = person('between', 'E-1');
    const rotator = await database.client('sealed_rotator');
    await rotator.query('begin');
    expect(await renewSubjectKey({ ...rotation, vault: postgresRotation(rotator) }, 'between', subject)).toBe(2);
    const eraser = await database.client('sealed_migrator');
    const erasing = eraser.query(`update vault.subject_key set wrapped = null where subject_id = 'E-1'`);
    await waitsFor(eraser);
    await rotator.query('commit');
    await erasing;
    expect(await closed(ring(), [value, { ...value, key: { ...value.key, version: 2 } }])).toEqual([
      'of E-1: erased',
      'of E-1: erased',
    ]);
    expect(await renewSubjectKey(rotation, 'between', subject)).toBe('erased');
  });

  it('of a person that has none is said', async () => {
    await giveClass(owner, 'known');
    await expect(renewSubjectKey(rotation, 'known', { kind: 'customer', id: 'nobody' })).rejects.toMatchObject({
      code: 'SEALING_KEY_UNKNOWN',
    });
  });
});
