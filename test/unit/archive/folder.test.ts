import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { afterAll, describe, expect, it } from 'vitest';
import { archiveEvents, folderArchive, readArchive } from '../../../shared/archive/index.ts';
import { allOf, archiveConformance, archivedEvent } from '../../support/archive-conformance.ts';

const directory = mkdtempSync(join(tmpdir(), 'sealed-outbox-archive-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));
let folders = 0;
const folder = (): string => join(directory, String((folders += 1)));

archiveConformance(() => folderArchive(folder()));

describe('a file of the archive', () => {
  it('that cannot be written leaves nothing behind: a disk that is full would be fuller at each try', async () => {
    const path = folder();
    // A folder of that name is in the way.
    mkdirSync(join(path, 'events', 'taken'), { recursive: true });
    await expect(folderArchive(path).put('events/taken', Buffer.from('content'))).rejects.toThrow();
    expect(readdirSync(join(path, 'events'))).toEqual(['taken']);
  });

  async function written(count: number): Promise<{ path: string; file: string }> {
    const path = folder();
    const archive = folderArchive(path);
    await archiveEvents(
      archive,
      Array.from({ length: count }, (_, n) => archivedEvent(n)),
    );
    const [name] = await allOf(archive.list(''));
    return { path, file: join(path, name ?? '') };
  }
  const read = (path: string) => allOf(readArchive(folderArchive(path)));

  it('is NDJSON that any tool reads, under the names of the columns', async () => {
    const { file } = await written(3);
    const lines = gunzipSync(readFileSync(file)).toString().trimEnd().split('\n');
    expect(lines).toHaveLength(3);
    expect(JSON.parse(lines[1] ?? '')).toEqual({
      id: archivedEvent(1).id,
      aggregate_type: 'thing',
      aggregate_id: 'a1',
      sequence: '2',
      type: 'thing.odd',
      schema_version: 1,
      occurred_at: '2026-11-30T00:00:01.000000Z',
      data: archivedEvent(1).data,
      metadata: null,
      deliveries: [{ destination: 'queue', state: 'published', published_at: '2026-12-01T00:00:00Z', message_id: 'm' }],
    });
  });

  it('that is cut off is refused, with its name', async () => {
    const { path, file } = await written(50);
    const content = readFileSync(file);
    writeFileSync(file, content.subarray(0, content.length - 20));
    await expect(read(path)).rejects.toThrow(/events\/2026\/11\/30\/.*cannot be decompressed/);
  });

  it.each([
    ['no JSON', 'x', 'it is no JSON object'],
    ['an array', '[]', '"id" is missing or malformed'],
    ['a sequence as a number', JSON.stringify({ sequence: 1 }), '"sequence" is missing or malformed'],
    ['data that is no JSON', JSON.stringify({ data: '{' }), '"data" is missing or malformed'],
    [
      'a delivery that was never made',
      JSON.stringify({ deliveries: [{ destination: 'q', state: 'pending' }] }),
      '"deliveries" is missing or malformed',
    ],
  ])('with %s is refused, with the line, and without a value', async (_, line, reason) => {
    const { path, file } = await written(1);
    const good = gunzipSync(readFileSync(file)).toString();
    const bad = line.startsWith('{') ? JSON.stringify({ ...JSON.parse(good), ...JSON.parse(line) }) : line;
    writeFileSync(file, gzipSync(`${good}${bad}\n`));
    await expect(read(path)).rejects.toMatchObject({
      code: 'ARCHIVE_DAMAGED',
      message: expect.stringContaining(`line 2: ${reason}`),
    });
  });

  it('is there whole or not at all, and strange files beside it are no events', async () => {
    const { path, file } = await written(1);
    writeFileSync(`${file}.1.partial`, 'half');
    writeFileSync(join(path, 'events', 'README'), 'x');
    expect(await read(path)).toHaveLength(1);
    expect(
      readdirSync(join(path, 'events'), { recursive: true }).filter((name) => String(name).endsWith('.gz')),
    ).toHaveLength(1);
  });
});
