import { describe, expect, it } from 'vitest';
import { SealingError, type SubjectRow, type VaultAnswer } from '../../../shared/sealing/index.ts';
import { gatheredReads } from '../../../shared/sealing/keyring/gathered-reads.ts';
import { keyringUnderTest } from '../../support/keyring.ts';
import { movedClock, turn } from '../../support/moved-clock.ts';

const KEY_ID = 'AAAAAAAAAAAAAAAAAAAAAA';
const person = (id: string, className = 'contact') => ({ class: className, subject: { kind: 'customer', id } });
const named = (version: number) => ({ class: 'contact', keyId: KEY_ID, version });
const idsOf = ({ subjects }: VaultAnswer): string[] => subjects.map((row) => row.subject.id);

/** Reads that a test answers when it wants to. Whoever is asked for has a key, but for those whose id begins with `none`. */
function heldReads() {
  const clock = movedClock();
  const asked: { ids: string[]; answer: () => void; fail: (error: Error) => void }[] = [];
  const reads = gatheredReads(
    {
      read(persons, names) {
        const { promise, resolve, reject } = Promise.withResolvers<VaultAnswer>();
        const ofPersons = persons.map((it): SubjectRow => ({ ...it, keyId: KEY_ID, version: 1, ...WRAPPED }));
        const byName = names.map((it): SubjectRow => ({ ...it, subject: person('of-name').subject, ...WRAPPED }));
        const subjects = [...ofPersons, ...byName].filter((row) => !row.subject.id.startsWith('none')).toReversed();
        asked.push({
          ids: [...persons.map((it) => it.subject.id), ...names.map((it) => String(it.version))],
          answer: () => resolve({ classes: ['contact'], branches: [], subjects, erasedThrough: 7 }),
          fail: reject,
        });
        return promise;
      },
    },
    clock,
  );
  return { reads, asked, clock };
}

const WRAPPED = { branchVersion: 1, wrapped: null };

describe('reads of a vault', () => {
  it('begin at once, and while one is under way the next one gathers all who come', async () => {
    const { reads, asked } = heldReads();
    const first = reads.ofPersons([person('a')]);
    const later = [[person('b'), person('c')], [person('c'), person('none-d')], [person('a')]].map((them) =>
      reads.ofPersons(them),
    );
    expect(asked.map(({ ids }) => ids)).toEqual([['a']]);
    asked[0]!.answer();
    expect(idsOf(await first)).toEqual(['a']);
    await turn();
    expect(asked.map(({ ids }) => ids)).toEqual([['a'], ['b', 'c', 'none-d', 'a']]);
    asked[1]!.answer();
    expect((await Promise.all(later)).map(idsOf)).toEqual([['b', 'c'], ['c'], ['a']]);
    expect(await later[0]).toMatchObject({ classes: ['contact'], erasedThrough: 7 });
  });

  it('give nobody an answer that was asked for before they came, and say when it was', async () => {
    const { reads, asked, clock } = heldReads();
    const first = reads.ofPersons([person('a')]);
    await clock.advance(50);
    const second = reads.ofPersons([person('a')]);
    await clock.advance(20);
    const began = clock.monotonic();
    asked[0]!.answer();
    expect((await first).askedAt.monotonic).toBe(began - 70);
    await turn();
    asked[1]!.answer();
    expect((await second).askedAt.monotonic).toBe(began);
  });

  it('of names and of persons stay apart: an older version is never taken for the newest', async () => {
    const { reads, asked } = heldReads();
    const newest = reads.ofPersons([person('of-name')]);
    const both = reads.byName([named(2), named(3)]);
    expect(asked.map(({ ids }) => ids)).toEqual([['of-name'], ['2', '3']]);
    for (const { answer } of asked) answer();
    expect((await newest).subjects.map((row) => row.version)).toEqual([1]);
    expect((await both).subjects.map((row) => row.version)).toEqual([2, 3]);
  });

  it('fail for all who wait for them, and for nobody who comes later', async () => {
    const { reads, asked } = heldReads();
    const away = new SealingError('SEALING_UNAVAILABLE', 'as the test wants it');
    const first = reads.ofPersons([person('a')]);
    const waiting = ['b', 'c'].map((id) => reads.ofPersons([person(id)]));
    asked[0]!.answer();
    await first;
    await turn();
    asked[1]!.fail(away);
    expect(await Promise.allSettled(waiting)).toEqual(waiting.map(() => ({ status: 'rejected', reason: away })));
    const after = reads.ofPersons([person('b')]);
    asked[2]!.answer();
    expect(idsOf(await after)).toEqual(['b']);
  });

  it('that hang hold nobody up who comes 100 ms later, and those take along who wait', async () => {
    const { reads, asked, clock } = heldReads();
    const hanging = reads.ofPersons([person('a')]);
    const waiting = reads.ofPersons([person('b')]);
    await clock.advance(99);
    const alsoWaiting = reads.ofPersons([person('c')]);
    expect(asked).toHaveLength(1);
    await clock.advance(1);
    const late = reads.ofPersons([person('d')]);
    const behindIt = reads.ofPersons([person('e')]);
    expect(asked.map(({ ids }) => ids)).toEqual([['a'], ['b', 'c', 'd']]);
    asked[0]!.answer();
    await hanging;
    await turn();
    // The one that began later is still under way.
    expect(asked).toHaveLength(2);
    asked[1]!.answer();
    expect((await Promise.all([waiting, alsoWaiting, late])).map(idsOf)).toEqual([['b'], ['c'], ['d']]);
    await turn();
    asked[2]!.answer();
    expect(idsOf(await behindIt)).toEqual(['e']);
  });

  it('take nobody along whom the vault may refuse as a whole: who is unsound fails alone', async () => {
    const { reads, asked } = heldReads();
    const first = reads.ofPersons([person('a')]);
    const unsound = [person('\u0000'), person('\ud800'), person('x', 'no class')].map((it) => reads.ofPersons([it]));
    const sound = reads.ofPersons([person('b')]);
    const names = [named(1), named(2 ** 31), named(2)].map((it) => reads.byName([it]));
    expect(asked.map(({ ids }) => ids.length)).toEqual([1, 1, 1, 1, 1, 1]);
    for (const { answer } of asked) answer();
    await Promise.all([first, ...unsound, ...names.slice(0, 2)]);
    await turn();
    expect(asked.slice(6).map(({ ids }) => ids)).toEqual([['b'], ['2']]);
    for (const { answer } of asked) answer();
    expect(idsOf(await sound)).toEqual(['b']);
    expect((await names[2]!).subjects).toHaveLength(1);
  });
});

describe('a keyring that is asked by many at once', () => {
  it('reads the vault twice: for the first, and for all others', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    const ids = Array.from({ length: 100 }, (_, index) => `C-${index}`);
    await keyring.keysToSeal(ids.map((id) => person(id)));
    const cold = another();
    vault.reads = 0;
    const keys = await Promise.all(ids.map((id) => cold.keysToSeal([person(id)])));
    expect(vault.reads).toBe(2);
    const names = keys.map((of, index) => of('contact', person(ids[index]!).subject));
    expect(new Set(names.map((key) => (key === 'erased' ? key : key?.keyId))).size).toBe(100);
    // What others asked for is no concern of theirs.
    expect(keys[1]!('contact', person('C-2').subject)).toBeUndefined();
  });

  it('denies a class to those who ask for it, and to nobody who was read with them', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    await keyring.keysToSeal([person('C-1'), person('C-2'), person('C-2', 'tax')]);
    const reader = another(vault.view('contact'));
    const all = await Promise.allSettled([
      reader.keysToSeal([person('C-1')]),
      reader.keysToSeal([person('C-2', 'tax')]),
      reader.keysToSeal([person('C-2')]),
    ]);
    expect(all.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(all[1]).toMatchObject({ reason: { code: 'SEALING_DENIED' } });
  });

  it('keeps a broken key from those alone who need it', async () => {
    const { keyring, another, vault } = keyringUnderTest();
    await keyring.keysToSeal(['C-0', 'C-1', 'C-2'].map((id) => person(id)));
    const broken = vault.subjects.findIndex((row) => row.subject.id === 'C-1');
    vault.subjects[broken] = { ...vault.subjects[broken]!, wrapped: Buffer.alloc(65, 1) };
    const cold = another();
    const all = await Promise.allSettled(['C-0', 'C-1', 'C-2'].map((id) => cold.keysToSeal([person(id)])));
    expect(all.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
  });
});
