import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { appendEntry, entriesAfter, type ErasureEntry } from '../../shared/sealing/erasure/entries.ts';
import type { ErasureLog } from '../../shared/sealing/index.ts';
import { allOf } from './archive-conformance.ts';

function erasureEntry(more: Partial<ErasureEntry> = {}): ErasureEntry {
  const key = () => ({ class: 'contact', keyId: randomBytes(16).toString('base64url'), version: 1 });
  return {
    subjectHmac: randomBytes(32),
    erased: [key(), { ...key(), version: 2 }],
    restricted: [{ ...key(), class: 'tax', until: '2036-11-30T12:00:00.000000Z' }],
    ...more,
  };
}

/** What every log of erasures does, whatever is behind it. `fresh` gives an empty one. */
export function erasureLogConformance(fresh: () => ErasureLog): void {
  const bytes = (text: string): Uint8Array => Buffer.from(text);
  const read = (log: ErasureLog, after = 0) => allOf(entriesAfter(log, after));

  describe('a log of erasures', () => {
    it('has nothing at first', async () => {
      const log = fresh();
      expect(await allOf(log.list('entry/', ''))).toEqual([]);
      expect(await read(log)).toEqual([]);
    });

    it('never writes a name twice, and says so', async () => {
      const log = fresh();
      expect(await log.create('entry/000000000001.json', bytes('first'))).toBe(true);
      expect(await log.create('entry/000000000001.json', bytes('second'))).toBe(false);
      expect(Buffer.from(await log.read('entry/000000000001.json')).toString()).toBe('first');
    });

    it('lists names after another, in order, over all its pages', async () => {
      const log = fresh();
      const names = Array.from({ length: 8 }, (_, index) => `entry/${String(index + 1).padStart(12, '0')}.json`);
      for (const name of names.toReversed()) await log.create(name, bytes(name));
      await log.create('subject-key/000001.json', bytes('{}'));
      expect(await allOf(log.list('entry/', ''))).toEqual(names);
      expect(await allOf(log.list('entry/', names[2] ?? ''))).toEqual(names.slice(3));
      expect(await allOf(log.list('entry/', names[7] ?? ''))).toEqual([]);
    });

    it('gives back entries as they were written, with numbers from 1', async () => {
      const log = fresh();
      const entries = [erasureEntry(), erasureEntry({ restricted: [] }), erasureEntry({ erased: [] })];
      for (const [index, entry] of entries.entries()) expect(await appendEntry(log, index, entry)).toBe(index + 1);
      expect(await read(log)).toEqual(entries.map((entry, index) => ({ number: index + 1, ...entry })));
      expect((await read(log, 2)).map(({ number }) => number)).toEqual([3]);
    });

    it('gives each of those that write at once a number of its own, without gaps', async () => {
      const log = fresh();
      const entries = Array.from({ length: 12 }, () => erasureEntry());
      const numbers = await Promise.all(entries.map((entry) => appendEntry(log, 0, entry)));
      expect(numbers.toSorted((a, b) => a - b)).toEqual(entries.map((_, index) => index + 1));
      const all = await read(log);
      for (const [index, number] of numbers.entries()) {
        expect(all[number - 1]?.subjectHmac).toEqual(entries[index]?.subjectHmac);
      }
    });

    it('says what the next number is also to who knows only an old one', async () => {
      const log = fresh();
      for (let number = 0; number < 5; number += 1) await appendEntry(log, number, erasureEntry());
      expect(await appendEntry(log, 0, erasureEntry())).toBe(6);
      expect(await appendEntry(log, 3, erasureEntry())).toBe(7);
    });

    it('is refused where it does not reach what the database has done, has a gap, or holds something else', async () => {
      const log = fresh();
      await expect(appendEntry(log, 1, erasureEntry())).rejects.toMatchObject({ code: 'ERASURE_LOG_DAMAGED' });
      await appendEntry(log, 0, erasureEntry());
      await expect(read(log, 2)).rejects.toThrow('entry 2 is missing');
      await log.create('entry/000000000003.json', bytes('{}'));
      await expect(read(log)).rejects.toThrow('entry 2 is missing');
      await log.create('entry/000000000002.json', bytes('{"format":1,"subject":"","erased":["x"],"restricted":[]}'));
      await expect(read(log)).rejects.toMatchObject({
        code: 'ERASURE_LOG_DAMAGED',
        message: expect.stringMatching(/entry [23] is none of format 1/),
      });
      await log.create('entry/other', bytes('{}'));
      await expect(appendEntry(log, 3, erasureEntry())).rejects.toThrow('entry 4 is missing');
    });
  });
}
