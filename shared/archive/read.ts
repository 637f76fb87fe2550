import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Archive } from './archive.ts';
import { ArchiveDamagedError, type ArchivedEvent, eventOfLine } from './archived-event.ts';

/** Where a reading of an archive begins and ends, for one that takes several turns. */
export interface ArchiveTurn {
  /** A day (`2026-11-30`), or a place as `mayGoOn` was told it. What is before is not read. Default: the beginning. */
  readonly from?: string;
  /**
   * Asked before each file, with its place: a day and the first id of a file. Several files may have one place, of which only the first is asked for. False ends the
   * reading there, before that file. Default: to the end.
   */
  mayGoOn?(place: string): boolean;
}

/** Day and first id of a file; whatever else lies in the archive is not read. */
const NAME = /^events\/(\d{4,}\/\d\d\/\d\d)\/([0-9a-f-]{36})-[0-9a-f-]{36}\.[0-9a-f]+\.ndjson\.gz$/;

/** Which events to read; what is not given does not limit. */
export interface ArchiveSelection {
  /** Of the event's own time: not before. */
  readonly from?: Date;
  /** Of the event's own time: before. */
  readonly until?: Date;
  readonly types?: readonly string[];
  readonly aggregate?: { readonly type: string; readonly id: string };
  readonly ids?: readonly string[];
}

/**
 * Events of the archive, day by day, each once: what a crash had archived twice comes a single time. Files are read one at a time and never held
 * as a whole. Within a day the order is that of the ids, nearly: who needs the order of an aggregate sorts by `sequence`.
 *
 * @example
 * for await (const event of readArchive(s3Archive({ client, bucket }), { from: new Date('2026-11-01') })) …
 *
 * @param turn for a reading that is cut into several. An event that is in files of both sides of a cut comes in both turns
 * @throws ArchiveDamagedError (`ARCHIVE_DAMAGED`) for a file that is not as it was written
 */
export async function* readArchive(
  archive: Archive,
  selection: ArchiveSelection = {},
  turn: ArchiveTurn = {},
): AsyncGenerator<ArchivedEvent> {
  let day = '';
  let asked = '';
  const seen = new Set<string>();
  for await (const name of filesOf(archive, selection)) {
    const [, ofDay = '', first = ''] = NAME.exec(name) ?? [];
    const place = `${ofDay.replaceAll('/', '-')}/${first}`;
    if (turn.from !== undefined && place < turn.from) continue;
    if (place !== asked && turn.mayGoOn?.(place) === false) return;
    asked = place;
    // An event is always in the files of its own day. These come by their first id, so what is below cannot come again.
    for (const id of seen) if (ofDay !== day || id < first) seen.delete(id);
    day = ofDay;
    for await (const event of eventsOf(archive, name)) {
      if (seen.has(event.id)) continue;
      seen.add(event.id);
      if (matches(event, selection)) yield event;
    }
  }
}

async function* filesOf(archive: Archive, { from, until }: ArchiveSelection): AsyncGenerator<string> {
  const day = (date: Date): string => date.toISOString().slice(0, 10).replaceAll('-', '/');
  const first = from === undefined ? undefined : day(from);
  const last = until === undefined ? undefined : day(until);
  for await (const name of archive.list(commonPrefix(first, last))) {
    const [, of] = NAME.exec(name) ?? [];
    if (of === undefined) continue;
    if ((first === undefined || of >= first) && (last === undefined || of <= last)) yield name;
  }
}

/** What the names of all days between have in common, so that a month need not list years. */
function commonPrefix(first = '', last = ''): string {
  const a = first.split('/');
  const b = last.split('/');
  const differs = a.findIndex((part, index) => part !== b[index]);
  const same = differs === -1 ? a : a.slice(0, differs);
  return ['events', ...same.filter((part) => part !== ''), ''].join('/');
}

async function* eventsOf(archive: Archive, name: string): AsyncGenerator<ArchivedEvent> {
  const source = Readable.from(await archive.read(name));
  const gunzip = createGunzip();
  source.on('error', (error) => gunzip.destroy(error));
  let number = 0;
  try {
    for await (const line of linesOf(source.pipe(gunzip))) {
      number += 1;
      yield eventOfLine(line, name, number);
    }
  } catch (cause) {
    if ((cause as { code?: string }).code?.startsWith('Z_') !== true) throw cause;
    throw new ArchiveDamagedError(name, number + 1, 'it cannot be decompressed', { cause });
  } finally {
    source.destroy();
    gunzip.destroy();
  }
}

/** Not `node:readline`: it ends a line at U+2028 too, which JSON has in its strings as it is. */
async function* linesOf(content: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let rest = '';
  for await (const piece of content) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  rest += decoder.decode();
  if (rest !== '') yield rest;
}

function matches(event: ArchivedEvent, { from, until, types, aggregate, ids }: ArchiveSelection): boolean {
  const time = Date.parse(event.occurredAt);
  return (
    (from === undefined || time >= from.getTime()) &&
    (until === undefined || time < until.getTime()) &&
    (types === undefined || types.includes(event.type)) &&
    (aggregate === undefined || (event.aggregateType === aggregate.type && event.aggregateId === aggregate.id)) &&
    (ids === undefined || ids.includes(event.id))
  );
}
