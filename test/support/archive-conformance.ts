import { describe, expect, it } from 'vitest';
import { type Archive, archiveEvents, type ArchivedEvent, readArchive } from '../../shared/archive/index.ts';
import { uuidAt } from './retention.ts';

export function archivedEvent(n: number, more: Partial<ArchivedEvent> = {}): ArchivedEvent {
  const ms = Date.UTC(2026, 10, 30) + n * 1000;
  return {
    id: uuidAt(ms, n),
    aggregateType: 'thing',
    aggregateId: `a${n % 3}`,
    sequence: BigInt(n) + 1n,
    type: n % 2 === 0 ? 'thing.even' : 'thing.odd',
    schemaVersion: 1,
    occurredAt: `${new Date(ms).toISOString().slice(0, -1)}000Z`,
    data: `{"n": ${n}, "big": 12345678901234567890, "text": "\u2028\u2029 ö"}`,
    metadata: null,
    deliveries: [{ destination: 'queue', state: 'published', publishedAt: '2026-12-01T00:00:00Z', messageId: 'm' }],
    ...more,
  };
}

export async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

/** What every archive does, whatever is behind it. `fresh` gives an empty one. */
export function archiveConformance(fresh: () => Archive): void {
  const read = (archive: Archive, selection = {}) => allOf(readArchive(archive, selection));

  describe('an archive', () => {
    it('has nothing at first', async () => {
      expect(await read(fresh())).toEqual([]);
    });

    it('gives back what was put into it, each event once, however often it was', async () => {
      const archive = fresh();
      const events = Array.from({ length: 20 }, (_, n) => archivedEvent(n));
      await archiveEvents(archive, events.slice(0, 12));
      await archiveEvents(archive, events.slice(0, 12));
      await archiveEvents(archive, events.slice(5));
      await archiveEvents(archive, [events[0]!, events[19]!]);
      const all = await read(archive);
      expect(all.toSorted((a, b) => (a.id < b.id ? -1 : 1))).toEqual(events);
    });

    it('keeps what another janitor put between the same two events', async () => {
      const archive = fresh();
      const [first, between, last] = [archivedEvent(1), archivedEvent(2), archivedEvent(3)];
      await archiveEvents(archive, [first, between, last]);
      await archiveEvents(archive, [first, last]);
      expect(await read(archive)).toHaveLength(3);
    });

    it('has a file for each day of the events’ own time', async () => {
      const archive = fresh();
      const old = archivedEvent(2, { occurredAt: '2026-01-02T23:59:59.999999Z' });
      await archiveEvents(archive, [archivedEvent(1), old]);
      const names = await allOf(archive.list('events/2026/'));
      expect(names.map((name) => name.slice(0, 17))).toEqual(['events/2026/01/02', 'events/2026/11/30']);
      expect(names[0]).toMatch(new RegExp(`^events/2026/01/02/${old.id}-${old.id}\\.[0-9a-f]{16}\\.ndjson\\.gz$`));
      expect(await allOf(archive.list('events/2026/12/'))).toEqual([]);
    });

    it('is read in turns, each from where the one before ended, also inside a day', async () => {
      const archive = fresh();
      const events = Array.from({ length: 6 }, (_, n) => archivedEvent(n));
      for (const n of [0, 2, 4]) await archiveEvents(archive, events.slice(n, n + 2));
      // From one and the same first event: one place.
      await archiveEvents(archive, [events[2]!]);
      const numbers: number[][] = [];
      for (let from: string | undefined = '2026-11-30'; from !== undefined && numbers.length < 9;) {
        const places: string[] = [];
        const mayGoOn = (place: string): boolean => places.push(place) === 1;
        const turn = await allOf(readArchive(archive, {}, { from, mayGoOn }));
        numbers.push(turn.map(({ sequence }) => Number(sequence) - 1));
        from = places[1];
      }
      expect(numbers).toEqual([
        [0, 1],
        [2, 3],
        [4, 5],
      ]);
    });

    it('is read by time, type, aggregate and id', async () => {
      const archive = fresh();
      const events = Array.from({ length: 10 }, (_, n) => archivedEvent(n));
      await archiveEvents(archive, [...events, archivedEvent(10, { occurredAt: '2026-12-01T00:00:00.000000Z' })]);
      const numbers = async (selection: object) =>
        (await read(archive, selection)).map(({ sequence }) => Number(sequence) - 1);
      const at = (seconds: number): Date => new Date(Date.UTC(2026, 10, 30) + seconds * 1000);
      expect(await numbers({ from: at(3), until: at(5) })).toEqual([3, 4]);
      expect(await numbers({ from: at(8) })).toEqual([8, 9, 10]);
      expect(await numbers({ until: at(2) })).toEqual([0, 1]);
      expect(await numbers({ types: ['thing.odd'], until: at(5) })).toEqual([1, 3]);
      expect(await numbers({ aggregate: { type: 'thing', id: 'a0' } })).toEqual([0, 3, 6, 9]);
      expect(await numbers({ ids: [events[7]!.id] })).toEqual([7]);
      expect(await numbers({ aggregate: { type: 'other', id: 'a0' } })).toEqual([]);
    });
  });
}
