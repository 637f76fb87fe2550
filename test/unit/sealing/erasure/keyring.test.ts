import { describe, expect, it } from 'vitest';
import { appendEntry } from '../../../../shared/sealing/erasure/entries.ts';
import { createPseudonyms, pseudonymous } from '../../../../shared/sealing/erasure/pseudonyms.ts';
import type { Keyring, KeyName, SubjectKey } from '../../../../shared/sealing/index.ts';
import { memoryErasureLog } from '../../../support/erasure-log.ts';
import { keyringUnderTest } from '../../../support/keyring.ts';

const MINUTE = 60_000;
const person = (id: string, className = 'contact') => ({ class: className, subject: { kind: 'customer', id } });

/** A keyring with a log, and what a vault is like that did not do what the log says: as an older backup is, or an erasure that was interrupted. */
function underTest() {
  const log = memoryErasureLog();
  const test = keyringUnderTest(log);
  const pseudonyms = createPseudonyms('test', log, test.kms);
  const erases = async (id: string, ...keys: readonly KeyName[]): Promise<number> =>
    appendEntry(log, 0, { subjectHmac: await pseudonyms.of(person(id).subject), erased: keys, restricted: [] });
  return { ...test, log, pseudonyms, erases };
}

async function keyOf(keyring: Keyring, id: string, className = 'contact'): Promise<SubjectKey | 'erased' | undefined> {
  return (await keyring.keysToSeal([person(id, className)]))(className, person(id).subject);
}

async function madeKey(keyring: Keyring, id: string): Promise<SubjectKey> {
  const key = await keyOf(keyring, id);
  if (key === 'erased' || key === undefined) throw new Error('the key was not made');
  return key;
}

async function opens(keyring: Keyring, name: KeyName): Promise<string> {
  const keys = await keyring.keysToOpen([name]);
  try {
    const key = keys(name);
    return typeof key === 'object' ? 'opens' : String(key);
  } catch (error) {
    return (error as { readonly code: string }).code;
  }
}

describe('a keyring with a log of erasures', () => {
  it('case 48: opens nobody whom an older backup of the vault brings back, and seals nothing about them', async () => {
    const { keyring, another, vault, erases } = underTest();
    const gone = await madeKey(keyring, 'C-gone');
    const stays = await madeKey(keyring, 'C-stays');
    vault.erasedThrough = await erases('C-gone', gone);
    // The backup: the key is there again, and the number is not.
    vault.erasedThrough = 0;
    const cold = another();
    expect(await opens(cold, gone)).toBe('erased');
    expect(await opens(cold, stays)).toBe('opens');
    expect(await keyOf(cold, 'C-gone')).toBe('erased');
    expect(await keyOf(cold, 'C-stays')).toMatchObject({ keyId: stays.keyId });
  });

  it('like case 48: notices at its next question that the number fell, although it has listed the log just before', async () => {
    const { keyring, another, vault, erases, log } = underTest();
    const gone = await madeKey(keyring, 'C-gone');
    await madeKey(keyring, 'C-other');
    vault.erasedThrough = await erases('C-gone', gone);
    vault.erase('C-gone');
    const warm = another();
    await keyOf(warm, 'C-other');
    const lists = log.lists;
    const restored = vault.subjects.findIndex(({ subject }) => subject.id === 'C-gone');
    vault.subjects[restored] = { ...vault.subjects[restored]!, wrapped: Buffer.alloc(65) };
    vault.erasedThrough = 0;
    expect(await opens(warm, gone)).toBe('erased');
    expect(log.lists).toBeGreaterThan(lists);
  });

  it('like case 48: makes no key for who was erased after the backup and is not in it', async () => {
    const { keyring, another, vault, erases } = underTest();
    const gone = await madeKey(keyring, 'C-gone');
    await erases('C-gone', gone);
    vault.subjects.length = 0;
    expect(await keyOf(another(), 'C-gone')).toBe('erased');
    expect(await keyOf(another(), 'C-gone', 'tax')).toMatchObject({ class: 'tax' });
    expect(vault.subjects.map(({ class: className }) => className)).toEqual(['tax']);
  });

  it('like case 48: makes none either once that is done in the vault, where only the pseudonym is known', async () => {
    const { keyring, another, vault, pseudonyms, erases } = underTest();
    const gone = await madeKey(keyring, 'C-gone');
    vault.erasedThrough = await erases('C-gone', gone);
    const pseudonym = pseudonymous(await pseudonyms.of(person('C-gone').subject));
    vault.subjects.length = 0;
    vault.subjects.push({ ...gone, subject: pseudonym, branchVersion: 0, wrapped: null });
    expect(await opens(another(), gone)).toBe('erased');
    expect(await keyOf(another(), 'C-gone')).toBe('erased');
    expect(await keyOf(another(), 'C-new')).toMatchObject({ class: 'contact' });
  });

  it('closes what it has in memory when the log says so, within five minutes of the entry', async () => {
    const { keyring, vault, clock, erases } = underTest();
    await madeKey(keyring, 'C-other');
    await clock.advance(3 * MINUTE);
    const key = await madeKey(keyring, 'C-1');
    await keyring.keysToOpen([key]);
    // Interrupted: in the log, and not done in the vault.
    await erases('C-1', key);
    vault.reads = 0;
    expect(await opens(keyring, key)).toBe('opens');
    await clock.advance(2 * MINUTE);
    expect(await opens(keyring, key)).toBe('erased');
    expect(await keyOf(keyring, 'C-1')).toBe('erased');
    expect(vault.reads).toBe(0);
  });

  it('lists the log once for many that start at once, then every five minutes, and asks KMS for nothing that it does not need', async () => {
    const { keyring, another, clock, log, kms, erases } = underTest();
    const key = await madeKey(keyring, 'C-1');
    await erases('C-other');
    const reader = another();
    log.lists = 0;
    kms.calls.length = 0;
    await Promise.all(Array.from({ length: 100 }, () => opens(reader, key)));
    expect(log.lists).toBe(1);
    await clock.advance(5 * MINUTE - 1);
    await opens(reader, key);
    expect(log.lists).toBe(1);
    await clock.advance(1);
    await opens(reader, key);
    expect(log.lists).toBe(2);
    expect(kms.calls.map(({ context }) => context.purpose)).toEqual(['branch']);
  });

  it('that has none works as before, and looks into none', async () => {
    const { kms, vault } = underTest();
    const { keyring } = keyringUnderTest();
    vault.erasedThrough = 17;
    expect(await opens(keyring, await madeKey(keyring, 'C-1'))).toBe('opens');
    expect(kms.calls).toEqual([]);
  });
});

describe('a log that cannot be read', () => {
  const away = Object.assign(new Error('secret-name'), { name: 'TimeoutError' });

  it('like case 48: keeps everything closed for who starts, in words that hold nothing of the cause but its name', async () => {
    const { keyring, another, log } = underTest();
    const key = await madeKey(keyring, 'C-1');
    log.failure = away;
    const cold = another();
    expect(await opens(cold, key)).toBe('SEALING_UNAVAILABLE');
    const error = await cold.keysToSeal([person('C-1')]).catch((cause: unknown) => cause);
    expect(error).toMatchObject({ code: 'SEALING_UNAVAILABLE', message: expect.stringContaining('TimeoutError') });
    expect(String(error)).not.toContain('secret-name');
    log.failure = null;
    expect(await opens(cold, key)).toBe('opens');
  });

  it('like case 48: lets who has read it before go on for sixty minutes', async () => {
    const { keyring, clock, log } = underTest();
    const key = await madeKey(keyring, 'C-1');
    log.failure = away;
    for (const minutes of [5, 20, 30]) {
      await clock.advance(minutes * MINUTE);
      expect(await opens(keyring, key)).toBe('opens');
    }
    await clock.advance(5 * MINUTE - 1);
    expect(await opens(keyring, key)).toBe('opens');
    await clock.advance(1);
    expect(await opens(keyring, key)).toBe('SEALING_UNAVAILABLE');
    await expect(keyOf(keyring, 'C-1')).rejects.toMatchObject({ code: 'SEALING_UNAVAILABLE' });
    log.failure = null;
    expect(await opens(keyring, key)).toBe('opens');
  });

  it('is not asked for with every request', async () => {
    const { keyring, clock, log } = underTest();
    const key = await madeKey(keyring, 'C-1');
    log.failure = away;
    await clock.advance(6 * MINUTE);
    log.lists = 0;
    for (let index = 0; index < 5; index += 1) expect(await opens(keyring, key)).toBe('opens');
    expect(log.lists).toBe(1);
    await clock.advance(10_000);
    await opens(keyring, key);
    expect(log.lists).toBe(2);
  });

  it('like case 48: keeps everything closed when the vault has fallen behind what was listed, also for who has read it before', async () => {
    const { keyring, clock, log, vault, erases } = underTest();
    vault.erasedThrough = await erases('C-gone');
    const key = await madeKey(keyring, 'C-1');
    log.failure = away;
    vault.erasedThrough = 0;
    await clock.advance(4 * MINUTE);
    expect(await opens(keyring, key)).toBe('SEALING_UNAVAILABLE');
    // Nor does it go on with what it has in memory.
    expect(await opens(keyring, key)).toBe('SEALING_UNAVAILABLE');
    log.failure = null;
    expect(await opens(keyring, key)).toBe('opens');
  });

  it('is one that lost its end, or another one, too', async () => {
    const { keyring, another, log, vault, erases } = underTest();
    const key = await madeKey(keyring, 'C-1');
    vault.erasedThrough = await erases('C-gone');
    log.files.clear();
    expect(await opens(another(), key)).toBe('SEALING_UNAVAILABLE');
  });
});
