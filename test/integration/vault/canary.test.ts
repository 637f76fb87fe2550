import { describe, expect, it } from 'vitest';
import { createKeyring, type Kms, postgresVault } from '../../../shared/sealing/index.ts';
import { testDatabase } from '../../support/database.ts';
import { fakeKms } from '../../support/keyring.ts';
import { recordingLog, recordingMetrics } from '../../support/recorders.ts';
import { ageRetired, closed, giveClass, rotate, rotationOn, sealFor } from '../../support/rotation.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const sealer = database.pool('sealed_sealer', 2);
const kms = fakeKms();
const rotation = rotationOn(database.pool('sealed_rotator', 2), { kms });
const ring = (with_: Kms = kms) => createKeyring({ name: 'test', vault: postgresVault(sealer), kms: with_ });
const canaryOf = async (className: string) =>
  (await owner.query('select value, opened_at is not null as opened from vault.canary where class = $1', [className]))
    .rows;
const letADayPass = () => owner.query(`update vault.canary set opened_at = opened_at - interval '1 day'`);
const unwraps = (): number => kms.calls.filter(({ call }) => call === 'unwrap').length;

describe('the canary of a class', () => {
  it('is made and opened by the first run, with the first branch key where there is none', async () => {
    await giveClass(owner, 'newborn', 'second');
    expect(await rotate(rotation)).toMatchObject({ opened: ['newborn', 'second'], failed: false });
    expect(await canaryOf('newborn')).toEqual([
      { value: expect.stringMatching(/^sealed\.1\.newborn\./), opened: true },
    ]);
  });

  it('is opened once a day, with nothing in memory, and stays the same over rotations', async () => {
    await giveClass(owner, 'daily');
    await rotate(rotation);
    const [made] = await canaryOf('daily');
    const before = unwraps();
    expect((await rotate(rotation)).opened).toEqual([]);
    expect(unwraps()).toBe(before);
    await rotate(rotation, { now: ['daily'] });
    await ageRetired(owner);
    await rotate(rotation);
    const metrics = recordingMetrics();
    await letADayPass();
    const asked = unwraps();
    expect(await rotate(rotation, { metrics })).toMatchObject({ opened: ['daily'], failed: false });
    expect(unwraps()).toBeGreaterThan(asked);
    expect(metrics.sum('CanaryFailed')).toBe(0);
    expect(metrics.sum('CanaryAge')).toBeLessThan(60);
    expect(await canaryOf('daily')).toEqual([made]);
  });

  const losses = [
    [
      'SEALING_KEY_UNKNOWN',
      `update vault.subject_key set wrapped = null where class = 'lost' and subject_id = 'canary'`,
    ],
    [
      'SEALING_TAMPERED',
      `update vault.subject_key set wrapped = set_byte(wrapped, 60, get_byte(wrapped, 60) # 1) where class = 'lost'`,
    ],
    ['SEALING_MALFORMED', `update vault.canary set value = 'sealed.1.lost.x' where class = 'lost'`],
  ] as const;
  it.each(losses)('that does not open is said with %s, every run, until it opens: %s', async (code, loss) => {
    await giveClass(owner, 'lost');
    await rotate(rotation);
    const { rows } = await owner.query(
      `select wrapped, (select value from vault.canary where class = 'lost') as value from vault.subject_key where class = 'lost'`,
    );
    await owner.query(loss);
    await letADayPass();
    for (const run of [1, 2]) {
      const [log, metrics] = [recordingLog(), recordingMetrics()];
      expect(await rotate(rotation, { log, metrics }), `run ${run}`).toMatchObject({ opened: [], failed: true });
      expect(log.lines).toEqual([
        expect.objectContaining({ level: 'error', fields: { key: 'lost', error: { name: 'SealingError', code } } }),
      ]);
      expect(metrics.sum('CanaryFailed')).toBe(1);
      expect(metrics.sum('CanaryAge')).toBeGreaterThan(86_000);
    }
    await owner.query(`update vault.subject_key set wrapped = $1 where class = 'lost'`, [rows[0].wrapped]);
    await owner.query(`update vault.canary set value = $1 where class = 'lost'`, [rows[0].value]);
    expect(await rotate(rotation)).toMatchObject({ opened: ['lost'], failed: false });
  });

  it.each(['SEALING_DENIED', 'SEALING_KEY_DISABLED', 'SEALING_THROTTLED', 'SEALING_UNAVAILABLE'] as const)(
    'says %s where KMS does, while processes with keys in memory still work',
    async (code) => {
      await giveClass(owner, 'away');
      await rotate(rotation);
      await letADayPass();
      const metrics = recordingMetrics();
      kms.failure = code;
      const report = await rotate(rotation, { metrics }).finally(() => (kms.failure = null));
      expect(report).toMatchObject({ failed: true, opened: [] });
      expect(metrics.sum('CanaryFailed')).toBe(1);
    },
  );

  it('notices that a retired branch key no longer unwraps, which the canary itself has left', async () => {
    await giveClass(owner, 'older');
    await rotate(rotation);
    await rotate(rotation, { now: ['older'] });
    await owner.query(
      `update vault.branch_key set wrapped = (select wrapped from vault.branch_key where class = 'older' and version = 2) where class = 'older' and version = 1`,
    );
    await letADayPass();
    expect(await rotate(rotation)).toMatchObject({ opened: [], failed: true });
  });
});

describe('another KMS key', () => {
  it('wraps the branch keys of all versions; what they wrap stays as it is and opens', async () => {
    await giveClass(owner, 'moved');
    const value = await sealFor(ring(), 'moved', 'M-1');
    await rotate(rotation, { now: ['moved'] });
    const before = await owner.query(`select wrapped from vault.subject_key where class = 'moved' order by key_id`);
    const other: Kms = {
      ...kms,
      async wrap(plaintext, context) {
        const { wrapped } = await kms.wrap(plaintext, context);
        return { kmsKey: 'other-key', wrapped: Buffer.concat([wrapped, Buffer.from(' ')]) };
      },
    };
    const report = await rotate(rotation, { kms: other, kmsKey: 'other-key' });
    expect(report).toMatchObject({ moved: ['moved 1', 'moved 2'], failed: false });
    const { rows } = await owner.query(`select distinct kms_key from vault.branch_key where class = 'moved'`);
    expect(rows).toEqual([{ kms_key: 'other-key' }]);
    expect(await rotate(rotation, { kms: other, kmsKey: 'other-key' })).toMatchObject({ moved: [] });
    expect(
      (await owner.query(`select wrapped from vault.subject_key where class = 'moved' order by key_id`)).rows,
    ).toEqual(before.rows);
    expect(await closed(ring(), [value])).toEqual([]);
  });

  it('that does not give back what it was given changes nothing', async () => {
    await giveClass(owner, 'bent');
    const value = await sealFor(ring(), 'bent', 'M-1');
    const bent: Kms = { ...kms, wrap: (_, context) => kms.wrap(Buffer.alloc(32, 9), context) };
    expect(await rotate(rotation, { kms: bent, kmsKey: 'other-key' })).toMatchObject({ moved: [], failed: true });
    expect(await closed(ring(), [value])).toEqual([]);
  });
});
