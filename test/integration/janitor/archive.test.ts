import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';
import { type Archive, type ArchivedEvent, folderArchive, readArchive } from '../../../shared/archive/index.ts';
import { allOf } from '../../support/archive-conformance.ts';
import { testDatabase } from '../../support/database.ts';
import { append, installCatalogue, thing } from '../../support/outbox.ts';
import { letAge, pruneOutbox, publishAll, remaining } from '../../support/retention.ts';

const database = await testDatabase();
const owner = database.pool('sealed_migrator');
const writer = database.pool('sealed_writer');
const janitor = database.pool('sealed_janitor');
const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-archive-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

let archive: Archive;
let folder = 0;
beforeEach(async () => {
  archive = folderArchive(join(directory, String((folder += 1))));
  await owner.query('truncate outbox.delivery, outbox.event, outbox.stream, outbox.relay');
  await owner.query(
    `update outbox.walk set mark = case name when 'deliveries' then '0' else '00000000-0000-0000-0000-000000000000' end, swept_at = '-infinity'`,
  );
  await installCatalogue(owner, [{ type: 'thing.happened' }, { type: 'thing.silent', destinations: [] }]);
});

async function oldEvents(count: number): Promise<void> {
  await append(writer, ...Array.from({ length: count }, (_, n) => thing(`a${n % 5}`, { n })));
  await publishAll(owner);
  await letAge(owner, 30);
}

async function archived(): Promise<ArchivedEvent[]> {
  return allOf(readArchive(archive));
}
const idsOf = (events: readonly { id: string }[]): string[] => events.map(({ id }) => id).toSorted();
const stored = async () => (await owner.query('select id::text from outbox.event order by id')).rows;

describe('an event that leaves the outbox', () => {
  it('is in the archive as it was stored, digit by digit, with where it went', async () => {
    await writer.query(
      `select outbox.append('[{"type": "thing.happened", "aggregate_type": "thing", "aggregate_id": "a", "occurred_at": "2026-11-03T04:05:06.123456Z",
         "metadata": {"traceparent": "t"}, "data": {"big": 12345678901234567890123, "exact": 1.10, "text": "ünïcode \\n \\u2028"}}]')`,
    );
    await publishAll(owner);
    await letAge(owner, 30);
    const { rows } = await owner.query('select id::text, data::text, metadata::text from outbox.event');
    await pruneOutbox(janitor, { archive });
    expect(await archived()).toEqual([
      {
        ...rows[0],
        aggregateType: 'thing',
        aggregateId: 'a',
        sequence: 1n,
        type: 'thing.happened',
        schemaVersion: 1,
        occurredAt: '2026-11-03T04:05:06.123456Z',
        deliveries: [{ destination: 'queue', state: 'published', publishedAt: expect.any(String), messageId: 'm' }],
      },
    ]);
    expect(rows[0].data).toContain('12345678901234567890123');
    expect((await remaining(owner)).events).toEqual([]);
  });

  it('is in the archive also where no route took it anywhere', async () => {
    await append(
      writer,
      thing(
        'a',
        {},
        { type: 'thing.silent', occurred_at: '2026-01-01T00:00:00Z', id: '01900000-0000-7000-8000-000000000001' },
      ),
    );
    await pruneOutbox(janitor, { archive });
    expect((await archived()).map(({ type, deliveries }) => [type, deliveries])).toEqual([['thing.silent', []]]);
    expect((await remaining(owner)).events).toEqual([]);
  });

  it('is not deleted where it could not be archived', async () => {
    await oldEvents(10);
    const away = { ...archive, put: () => Promise.reject(new Error('away')) };
    const { failed, walks } = await pruneOutbox(janitor, { archive: away });
    expect([failed, walks.map(({ ended }) => ended)]).toEqual([true, ['failed', 'not-yet']]);
    expect((await remaining(owner)).events).toHaveLength(10);
    await pruneOutbox(janitor, { archive, sweepSeconds: 3600 });
    expect(await archived()).toHaveLength(10);
    expect((await remaining(owner)).events).toEqual([]);
  });

  it('is archived twice and read once after a crash between archive and deletion', async () => {
    await oldEvents(10);
    const all = await stored();
    const crash = {
      query: async (text: string, values?: readonly unknown[]) => {
        if (text.includes('outbox.prune(')) throw new Error('crashed');
        return janitor.query(text, values === undefined ? [] : [...values]);
      },
    };
    expect((await pruneOutbox(crash, { archive, page: 4 })).failed).toBe(true);
    expect(await stored()).toEqual(all);
    expect(await archived()).toHaveLength(4);
    // Another size of page, so the files overlap.
    await pruneOutbox(janitor, { archive, page: 3 });
    expect(await stored()).toEqual([]);
    expect(idsOf(await archived())).toEqual(idsOf(all));
  });

  it('is not needed for the deliveries of a replay that came after it had gone', async () => {
    await oldEvents(3);
    await owner.query('delete from outbox.event');
    await pruneOutbox(janitor, { archive });
    expect((await remaining(owner)).deliveries).toEqual([]);
    expect(await archived()).toEqual([]);
  });

  it('that became prunable after the page was archived stays for the next run', async () => {
    await oldEvents(4);
    await owner.query(
      `update outbox.delivery set state = 'pending', published_at = null where position = (select min(position) from outbox.delivery)`,
    );
    const meanwhile: Archive = {
      ...archive,
      async put(name, content) {
        await archive.put(name, content);
        await publishAll(owner);
        await letAge(owner, 30);
      },
    };
    await pruneOutbox(janitor, { archive: meanwhile });
    expect((await remaining(owner)).events).toEqual(['a0#1']);
    expect(await archived()).toHaveLength(3);
    await pruneOutbox(janitor, { archive });
    expect(await archived()).toHaveLength(4);
    expect((await remaining(owner)).events).toEqual([]);
  });
});

describe('a page of large events', () => {
  /** How many events each file has. */
  const files: number[] = [];
  const counting = (): Archive => ({
    ...archive,
    put(name, content) {
      files.push(gunzipSync(content).toString().trimEnd().split('\n').length);
      return archive.put(name, content);
    },
  });
  beforeEach(() => void files.splice(0));

  it('ends by their bytes, and not only by their number', async () => {
    await append(
      writer,
      ...Array.from({ length: 7 }, (_, n) => thing('a', { n }, { occurred_at: '2026-01-01T00:00:00Z' })),
    );
    // As if each had 6 MB, more than any destination takes.
    await owner.query('update outbox.delivery set bytes = 6000000');
    await publishAll(owner);
    await letAge(owner, 30);
    const { walks } = await pruneOutbox(janitor, { archive: counting() });
    expect(files).toEqual([3, 3, 1]);
    expect(walks[0]).toMatchObject({ pages: 3, removed: { event: 7 }, ended: 'end', behindSeconds: 0 });
    expect((await remaining(owner)).events).toEqual([]);
  });

  it('has one event at least, however large', async () => {
    await append(writer, ...['a', 'b'].map((id) => thing(id, {}, { occurred_at: '2026-01-01T00:00:00Z' })));
    await owner.query('update outbox.delivery set bytes = 60000000');
    await publishAll(owner);
    await letAge(owner, 30);
    await pruneOutbox(janitor, { archive: counting() });
    expect(files).toEqual([1, 1]);
    expect((await remaining(owner)).events).toEqual([]);
  });

  it('does so, too, where no route took them anywhere', async () => {
    await owner.query(
      `insert into outbox.event (id, aggregate_type, aggregate_id, sequence, type, schema_version, data, occurred_at)
       select ('01900000-0000-7000-8000-00000000000' || n)::uuid, 'thing', 'a', n, 'thing.silent', 1,
              json_build_object('text', repeat('x', 6000000)), '2026-01-01' from generate_series(1, 4) n`,
    );
    await pruneOutbox(janitor, { archive: counting() });
    expect(files).toEqual([3, 1]);
    expect((await remaining(owner)).events).toEqual([]);
  });
});

describe('two janitors at once', () => {
  it('lose nothing and delete everything, a page each', async () => {
    await oldEvents(400);
    const all = await stored();
    const other = database.pool('sealed_janitor');
    const [one, two] = await Promise.all([
      pruneOutbox(janitor, { archive, page: 20 }),
      pruneOutbox(other, { archive, page: 20, sweepSeconds: 3600 }),
    ]);
    const removed = [one, two].map(({ walks }) => walks[0]?.removed['event'] ?? 0);
    expect(removed[0]! + removed[1]!).toBe(400);
    expect(await stored()).toEqual([]);
    expect(idsOf(await archived())).toEqual(idsOf(all));
  });

  it('one that meets another in the middle of a page deletes nothing and waits for nobody', async () => {
    await oldEvents(10);
    const first = await database.client('sealed_janitor');
    const {
      rows: [begun],
    } = await first.query(`select outbox.begin_walk('deliveries', '0') as mark`);
    await first.query('begin');
    await first.query(`select * from outbox.prune($1, '10 days', 5)`, [begun.mark]);
    const { rows } = await janitor.query(`select * from outbox.prune($1, '10 days', 5)`, [begun.mark]);
    expect(rows).toEqual([{ events: 0, deliveries: 0, reached: begun.mark, more: false, behind_seconds: 0 }]);
    await first.query('rollback');
    expect((await remaining(owner)).events).toHaveLength(10);
  });
});
