import { describe, expect, it } from 'vitest';
import {
  createKeyring,
  type Keyring,
  type KeyName,
  openValue,
  sealValue,
  type SubjectKey,
  type SealingErrorCode,
} from '../../../shared/sealing/index.ts';
import { keyringUnderTest } from '../../support/keyring.ts';
import { codeOf, EVENT } from '../../support/sealing.ts';

const MINUTE = 60_000;
const person = (id: string, className = 'contact') => ({ class: className, subject: { kind: 'customer', id } });

/** The key with which a value of a person is sealed now. */
async function keyOf(keyring: Keyring, id: string, className = 'contact'): Promise<SubjectKey> {
  const { subject } = person(id);
  const key = (await keyring.keysToSeal([person(id, className)]))(className, subject);
  if (key === undefined || key === 'erased') throw new Error(`no key: ${key}`);
  return key;
}

async function opened(keyring: Keyring, name: KeyName, text: string): Promise<unknown> {
  const key = (await keyring.keysToOpen([name]))(name);
  return typeof key === 'object' ? openValue(text, key, EVENT) : key;
}

const rejection = async (promise: Promise<unknown>): Promise<string> => {
  try {
    await promise;
  } catch (error) {
    return (error as { readonly code?: string }).code ?? String(error);
  }
  return 'it resolved';
};

describe('a keyring', () => {
  it('makes the keys that are missing, and another process opens what they sealed', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    const key = await keyOf(keyring, 'C-1');
    const text = sealValue('Ada', key, EVENT);
    expect(await opened(another(), key, text)).toBe('Ada');
    expect(vault.subjects).toHaveLength(1);
    expect(await keyOf(another(), 'C-1')).toMatchObject({ keyId: key.keyId, version: 1 });
  });

  it('gives one key to a person however its id is written, and different ones to persons, kinds and classes', async () => {
    const { keyring, vault } = keyringUnderTest();
    const id = '6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f';
    const same = await keyring.keysToSeal([person(id), person(id.toUpperCase())]);
    expect(same('contact', person(id.toUpperCase()).subject)).toBe(same('contact', person(id).subject));
    await keyring.keysToSeal([
      person('C-1'),
      person('C-1', 'tax'),
      { class: 'contact', subject: { kind: 'k', id: 'C-1' } },
    ]);
    expect(new Set(vault.subjects.map((row) => row.keyId)).size).toBe(4);
  });

  it('asks the vault once for all that a piece of work needs, and not at all for what it knows', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    const persons = Array.from({ length: 50 }, (_, index) => person(`C-${index}`, index % 2 === 0 ? 'contact' : 'tax'));
    await keyring.keysToSeal(persons);
    expect(vault.reads).toBe(1);
    await keyring.keysToSeal(persons);
    expect(vault.reads).toBe(1);
    const reader = another();
    await reader.keysToOpen(vault.subjects);
    await reader.keysToOpen(vault.subjects);
    expect(vault.reads).toBe(2);
  });

  it('tells KMS vault, class, version and purpose, and nothing of a person', async () => {
    const { keyring, another, kms } = keyringUnderTest();
    const key = await keyOf(keyring, 'ada@example.com');
    await another().keysToOpen([key]);
    const context = { vault: 'test', class: 'contact', version: '1', purpose: 'branch' };
    expect(kms.calls).toEqual([
      { call: 'generate', context },
      { call: 'unwrap', context },
    ]);
  });

  it('refuses a name that is none', () => {
    const { kms, vault } = keyringUnderTest();
    for (const name of ['', 'A', 'a b', '1', 'a'.repeat(64)]) {
      expect(() => createKeyring({ name, kms, vault })).toThrow(TypeError);
    }
  });

  it('does not open a key that was put into the row of another person, class or version', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    const a = await keyOf(keyring, 'C-1');
    await keyOf(keyring, 'C-2');
    const [first, second] = vault.subjects;
    vault.subjects[0] = { ...first!, wrapped: second!.wrapped };
    expect(codeOf(await openerOf(another(), a))).toBe('SEALING_TAMPERED');
    vault.subjects[0] = { ...first!, subject: second!.subject };
    expect(codeOf(await openerOf(another(), a))).toBe('SEALING_TAMPERED');
    vault.subjects[0] = { ...first!, version: 2 };
    expect(codeOf(await openerOf(another(), { ...a, version: 2 }))).toBe('SEALING_TAMPERED');
    vault.subjects[0] = { ...first!, wrapped: first!.wrapped!.subarray(1) };
    expect(codeOf(await openerOf(another(), a))).toBe('SEALING_MALFORMED');
  });

  it('does not open a branch key that was put into the row of another class', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    const key = await keyOf(keyring, 'C-1');
    await keyOf(keyring, 'C-1', 'tax');
    const tax = vault.branches.find((row) => row.class === 'tax')!;
    const contact = vault.branches.findIndex((row) => row.class === 'contact');
    vault.branches[contact] = { ...vault.branches[contact]!, wrapped: tax.wrapped };
    expect(codeOf(await openerOf(another(), key))).toBe('SEALING_TAMPERED');
  });
});

/** Asks for a key that was loaded, or throws why it was not. */
async function openerOf(keyring: Keyring, name: KeyName): Promise<() => unknown> {
  const keys = await keyring.keysToOpen([name]);
  return () => keys(name);
}

describe('creation', () => {
  it('case 44: of two processes that create the same person at once one wins, and both open everything', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    await keyOf(keyring, 'C-0');
    // Neither creates before both have seen that there is no key.
    const both = Promise.withResolvers<void>();
    let waiting = 0;
    vault.beforeCreate = () => {
      waiting += 1;
      if (waiting === 2) both.resolve();
      return both.promise;
    };
    const [one, two] = [another(), another()];
    const [first, second] = await Promise.all([keyOf(one, 'C-1'), keyOf(two, 'C-1')]);
    expect(second.keyId).toBe(first.keyId);
    expect(vault.subjects.filter(({ subject }) => subject.id === 'C-1')).toHaveLength(1);
    expect(await opened(two, first, sealValue('one', first, EVENT))).toBe('one');
    expect(await opened(one, second, sealValue('two', second, EVENT))).toBe('two');
  });

  it('like case 44: of two that make the first branch key of a class at once one wins, and nothing is wrapped with the other', async () => {
    const { another, vault, kms } = keyringUnderTest();
    const both = Promise.withResolvers<void>();
    let waiting = 0;
    vault.beforeCreate = () => {
      waiting += 1;
      if (waiting === 2) both.resolve();
      return both.promise;
    };
    const [one, two] = [another(), another()];
    const [a, b] = await Promise.all([keyOf(one, 'C-1'), keyOf(two, 'C-2')]);
    expect(vault.branches).toHaveLength(1);
    expect(kms.calls.map(({ call }) => call).toSorted()).toEqual(['generate', 'generate', 'unwrap']);
    const third = another();
    expect(await opened(third, a, sealValue('a', a, EVENT))).toBe('a');
    expect(await opened(third, b, sealValue('b', b, EVENT))).toBe('b');
  });

  it('that failed is tried again', async () => {
    const { keyring, kms, vault } = keyringUnderTest();
    kms.failure = 'SEALING_THROTTLED';
    expect(await rejection(keyOf(keyring, 'C-1'))).toBe('SEALING_THROTTLED');
    kms.failure = null;
    vault.failure = 'SEALING_UNAVAILABLE';
    expect(await rejection(keyOf(keyring, 'C-1'))).toBe('SEALING_UNAVAILABLE');
    vault.failure = null;
    await expect(keyOf(keyring, 'C-1')).resolves.toMatchObject({ class: 'contact' });
  });
});

describe('calls of KMS', () => {
  it('case 46: 10,000 pieces of work for one person make one', async () => {
    const { keyring, another, kms } = keyringUnderTest();
    await keyOf(keyring, 'C-1');
    kms.calls.length = 0;
    const cold = another();
    for (let index = 0; index < 10_000; index += 1) await cold.keysToSeal([person('C-1')]);
    expect(kms.calls.map(({ call }) => call)).toEqual(['unwrap']);
  });

  it('case 46: 100 cold requests at once make one, whoever they are for', async () => {
    const { keyring, another, kms } = keyringUnderTest();
    await keyring.keysToSeal(Array.from({ length: 100 }, (_, index) => person(`C-${index}`)));
    kms.calls.length = 0;
    const cold = another();
    await Promise.all(Array.from({ length: 100 }, (_, index) => cold.keysToSeal([person(`C-${index}`)])));
    expect(kms.calls.map(({ call }) => call)).toEqual(['unwrap']);
  });

  it('like case 46: 100 cold requests at once make one also where the class is new', async () => {
    const { keyring, kms, vault } = keyringUnderTest();
    await Promise.all(Array.from({ length: 100 }, (_, index) => keyring.keysToSeal([person(`C-${index}`)])));
    expect(kms.calls.map(({ call }) => call)).toEqual(['generate']);
    expect(vault.branches).toHaveLength(1);
  });

  it('are six in an hour of work for ever new persons', async () => {
    const { keyring, another, kms, clock } = keyringUnderTest();
    await keyOf(keyring, 'C-first');
    kms.calls.length = 0;
    const busy = another();
    for (let second = 0; second < 3_600; second += 10) {
      await busy.keysToSeal([person(`C-${second}`)]);
      await clock.advance(10_000);
    }
    expect(kms.calls.map(({ call }) => call)).toEqual(Array(6).fill('unwrap'));
  });
});

describe('a branch key in memory', () => {
  /** A keyring that has used its branch key once, and a way to use it again, for persons that it does not know. */
  async function warm() {
    const test = keyringUnderTest();
    await test.keyring.keysToSeal(Array.from({ length: 20 }, (_, index) => person(`C-${index}`)));
    const reader = test.another();
    let used = 0;
    const use = async (): Promise<string> => {
      const name = test.vault.subjects[used]!;
      used += 1;
      const keys = await reader.keysToOpen([name]);
      const code = codeOf(() => keys(name));
      return code === 'nothing was thrown' ? 'opened' : code;
    };
    expect(await use()).toBe('opened');
    test.kms.calls.length = 0;
    return { ...test, use };
  }
  const AWAY = ['SEALING_THROTTLED', 'SEALING_UNAVAILABLE'] as const satisfies SealingErrorCode[];
  const REFUSED = ['SEALING_DENIED', 'SEALING_KEY_DISABLED'] as const satisfies SealingErrorCode[];

  it('is used for ten minutes without asking, then asked for while it is used', async () => {
    const { use, clock, kms } = await warm();
    await clock.advance(10 * MINUTE - 1);
    expect(await use()).toBe('opened');
    expect(kms.calls).toHaveLength(0);
    await clock.advance(1);
    const gate = Promise.withResolvers<void>();
    kms.gate = gate.promise;
    expect(await use()).toBe('opened');
    expect(await use()).toBe('opened');
    expect(kms.calls).toHaveLength(1);
    gate.resolve();
    await clock.advance(9 * MINUTE);
    expect(await use()).toBe('opened');
    expect(kms.calls).toHaveLength(1);
  });

  it('is not used from fifteen minutes on before KMS has answered', async () => {
    const { use, clock, kms } = await warm();
    await clock.advance(15 * MINUTE);
    const gate = Promise.withResolvers<void>();
    kms.gate = gate.promise;
    const order: string[] = [];
    const using = use().then((result) => order.push(result));
    await clock.advance(1);
    order.push('KMS answers');
    gate.resolve();
    await using;
    expect(order).toEqual(['KMS answers', 'opened']);
  });

  it.each(AWAY)('case 47: is used up to an hour while KMS says %s', async (failure) => {
    const { use, clock, kms } = await warm();
    kms.failure = failure;
    for (const minutes of [11, 5, 14, 29]) {
      await clock.advance(minutes * MINUTE);
      expect(await use()).toBe('opened');
    }
    await clock.advance(MINUTE - 1);
    expect(await use()).toBe('opened');
    await clock.advance(1);
    expect(await use()).toBe(failure);
    kms.failure = null;
    expect(await use()).toBe('opened');
  });

  it('is not asked for with every request while KMS is away', async () => {
    const { use, clock, kms } = await warm();
    kms.failure = 'SEALING_THROTTLED';
    await clock.advance(16 * MINUTE);
    for (let index = 0; index < 5; index += 1) expect(await use()).toBe('opened');
    expect(kms.calls).toHaveLength(1);
    await clock.advance(10_000);
    expect(await use()).toBe('opened');
    expect(kms.calls).toHaveLength(2);
  });

  it.each(REFUSED)('case 47: is given up at once when KMS says %s', async (failure) => {
    const { use, clock, kms } = await warm();
    kms.failure = failure;
    await clock.advance(15 * MINUTE);
    expect(await use()).toBe(failure);
    // Neither does it come back when KMS is only away.
    kms.failure = 'SEALING_UNAVAILABLE';
    expect(await use()).toBe('SEALING_UNAVAILABLE');
  });

  it.each(REFUSED)('like case 47: is given up by an answer in the background, too: %s', async (failure) => {
    const { use, clock, kms } = await warm();
    kms.failure = failure;
    await clock.advance(11 * MINUTE);
    await use();
    await clock.advance(1);
    expect(await use()).toBe(failure);
  });

  it('like case 47: is not used for an hour of the wall clock that the process slept through', async () => {
    const { use, clock, kms } = await warm();
    clock.stepWall(61 * MINUTE);
    kms.failure = 'SEALING_UNAVAILABLE';
    expect(await use()).toBe('SEALING_UNAVAILABLE');
  });
});

describe("a person's key in memory", () => {
  it('is not used past five minutes, whatever is down', async () => {
    const { keyring, clock, vault } = keyringUnderTest();
    const sealing = await keyring.keysToSeal([person('C-1')]);
    const name = vault.subjects[0]!;
    const opening = await keyring.keysToOpen([name]);
    vault.failure = 'SEALING_UNAVAILABLE';
    await clock.advance(5 * MINUTE - 1);
    expect(sealing('contact', name.subject)).toMatchObject({ keyId: name.keyId });
    expect(opening(name)).toMatchObject({ keyId: name.keyId });
    await clock.advance(1);
    expect(sealing('contact', name.subject)).toBeUndefined();
    expect(codeOf(() => opening(name))).toBe('SEALING_UNAVAILABLE');
    expect(await rejection(keyring.keysToSeal([person('C-1')]))).toBe('SEALING_UNAVAILABLE');
    expect(codeOf(await openerOf(keyring, name))).toBe('SEALING_UNAVAILABLE');
  });

  it('lasts a minute at least from when it is given out', async () => {
    const { keyring, clock, vault } = keyringUnderTest();
    await keyring.keysToSeal([person('C-1')]);
    await clock.advance(4 * MINUTE - 1);
    await keyring.keysToSeal([person('C-1')]);
    expect(vault.reads).toBe(1);
    await clock.advance(1);
    const sealing = await keyring.keysToSeal([person('C-1')]);
    expect(vault.reads).toBe(2);
    await clock.advance(4 * MINUTE);
    expect(sealing('contact', person('C-1').subject)).toMatchObject({ class: 'contact' });
  });

  it('ages while the process is frozen', async () => {
    const { keyring, clock } = keyringUnderTest();
    const sealing = await keyring.keysToSeal([person('C-1')]);
    clock.stepWall(5 * MINUTE);
    expect(sealing('contact', person('C-1').subject)).toBeUndefined();
  });

  it('is one of 5,000: the one that was not used for longest goes', async () => {
    const { keyring, vault } = keyringUnderTest();
    const persons = Array.from({ length: 5_000 }, (_, index) => person(`C-${index}`));
    await keyring.keysToSeal(persons);
    await keyring.keysToSeal([person('C-0')]);
    await keyring.keysToSeal([person('C-5000')]);
    vault.reads = 0;
    await keyring.keysToSeal([person('C-0')]);
    expect(vault.reads).toBe(0);
    await keyring.keysToSeal([person('C-1')]);
    expect(vault.reads).toBe(1);
  });
});

describe('persons who are erased', () => {
  it('case 48: open no more, and what is sealed later carries the mark', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    const key = await keyOf(keyring, 'C-1');
    vault.erase('C-1');
    expect(await opened(another(), key, '')).toBe('erased');
    expect((await another().keysToSeal([person('C-1')]))('contact', person('C-1').subject)).toBe('erased');
    expect(vault.subjects).toHaveLength(1);
  });

  it('like case 48: close in a process that has their key in memory, within five minutes', async () => {
    const { keyring, clock, vault } = keyringUnderTest();
    const key = await keyOf(keyring, 'C-1');
    const text = sealValue('Ada', key, EVENT);
    expect(await opened(keyring, key, text)).toBe('Ada');
    vault.erase('C-1');
    expect(await opened(keyring, key, text)).toBe('Ada');
    await clock.advance(5 * MINUTE);
    expect(await opened(keyring, key, text)).toBe('erased');
  });

  it('like case 48: while somebody creates their key get none', async () => {
    const { another, vault } = keyringUnderTest();
    await keyOf(another(), 'C-0');
    const slow = another();
    vault.beforeCreate = async () => {
      vault.beforeCreate = () => Promise.resolve();
      await keyOf(another(), 'C-1');
      vault.erase('C-1');
    };
    expect((await slow.keysToSeal([person('C-1')]))('contact', person('C-1').subject)).toBe('erased');
  });
});

describe('what cannot be loaded', () => {
  it('is denied by class: others open', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    const contact = await keyOf(keyring, 'C-1');
    const tax = await keyOf(keyring, 'C-1', 'tax');
    const reader = another(vault.view('contact'));
    const keys = await reader.keysToOpen([contact, tax]);
    expect(keys(contact)).toMatchObject({ keyId: contact.keyId });
    expect(keys(tax)).toBe('denied');
    expect(await rejection(reader.keysToSeal([person('C-1', 'tax')]))).toBe('SEALING_DENIED');
  });

  it('is denied by class also to who erases, and so sees the rows of all classes', async () => {
    const { keyring, another, vault, kms } = keyringUnderTest();
    const [contact, tax] = [await keyOf(keyring, 'C-1'), await keyOf(keyring, 'C-1', 'tax')];
    const eraser = another({
      ...vault,
      read: async (persons, names) => ({ ...(await vault.read(persons, names)), classes: ['contact'] }),
    });
    kms.calls.length = 0;
    const keys = await eraser.keysToOpen([contact, tax]);
    expect(keys(contact)).toMatchObject({ keyId: contact.keyId });
    expect(keys(tax)).toBe('denied');
    expect(kms.calls.map(({ context }) => context.class)).toEqual(['contact']);
  });

  it('is asked for once: a class that was denied is not asked for with every batch, until it may have been granted', async () => {
    const { keyring, another, vault, clock } = keyringUnderTest();
    const tax = await keyOf(keyring, 'C-1', 'tax');
    const reader = another(vault.view('contact'));
    vault.reads = 0;
    for (let index = 0; index < 10; index += 1) expect(await opened(reader, tax, '')).toBe('denied');
    expect(vault.reads).toBe(1);
    await clock.advance(4 * MINUTE);
    await reader.keysToOpen([tax]);
    expect(vault.reads).toBe(2);
  });

  it('does not keep closed what is in memory, nor other classes', async () => {
    const { keyring, another, vault, kms } = keyringUnderTest();
    const contact = await keyOf(keyring, 'C-1');
    const tax = await keyOf(keyring, 'C-1', 'tax');
    const reader = another();
    await reader.keysToOpen([contact]);
    kms.failure = 'SEALING_DENIED';
    const keys = await reader.keysToOpen([contact, tax]);
    expect(keys(contact)).toMatchObject({ keyId: contact.keyId });
    expect(codeOf(() => keys(tax))).toBe('SEALING_DENIED');
    vault.failure = 'SEALING_UNAVAILABLE';
    const later = await reader.keysToOpen([contact, tax]);
    expect(later(contact)).toMatchObject({ keyId: contact.keyId });
    expect(codeOf(() => later(tax))).toBe('SEALING_UNAVAILABLE');
  });

  it('is unknown where no such key exists, and where its branch key is gone', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    const key = await keyOf(keyring, 'C-1');
    expect(await opened(another(), { ...key, version: 2 }, '')).toBeUndefined();
    vault.branches.length = 0;
    expect(codeOf(await openerOf(another(), key))).toBe('SEALING_KEY_UNKNOWN');
  });
});

describe('a vault that was restored from an older backup', () => {
  it('gets the first branch key of a class again, although this process has made it before', async () => {
    const { keyring, another, vault, clock } = keyringUnderTest();
    await keyOf(keyring, 'C-lost');
    // The backup is of before the class.
    vault.branches.length = 0;
    vault.subjects.length = 0;
    await clock.advance(2 * MINUTE);
    const key = await keyOf(keyring, 'C-1');
    expect(vault.branches).toHaveLength(1);
    expect(await opened(another(), key, sealValue('Ada', key, EVENT))).toBe('Ada');
  });

  it('may give a branch key version a second time: what is in memory under that name is not used', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    const lost = await keyOf(keyring, 'C-lost');
    // What was made after the backup is gone; another process makes the class's first branch key again.
    vault.branches.length = 0;
    vault.subjects.length = 0;
    const key = await keyOf(another(), 'C-1');
    const text = sealValue('Ada', key, EVENT);
    expect(await opened(keyring, key, text)).toBe('Ada');
    const next = await keyOf(keyring, 'C-2');
    expect(await opened(another(), next, sealValue('Grace', next, EVENT))).toBe('Grace');
    expect(await opened(another(), lost, sealValue('x', lost, EVENT))).toBeUndefined();
  });
});
