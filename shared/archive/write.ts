import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Archive } from './archive.ts';
import { type ArchivedEvent, lineOf } from './archived-event.ts';

const compress = promisify(gzip);

/** Text of events gets a fifth of its size already; level 6 takes three times the processor for a twelfth less. */
const LEVEL = 1;

export interface ArchivedBatch {
  /** Ids of events that are in the archive now. */
  readonly events: readonly string[];
  /** Compressed. */
  readonly bytes: number;
}

/**
 * Writes events into files of the day of each one's own time (UTC), `events/2026/11/30/<first>-<last>.<hash>.ndjson.gz`: sorted by id, and named by
 * the first and last of them and by the content. Resolves when all files are there for good.
 *
 * The hash makes a name stand for its content: of two janitors that meet different events between the same two, neither overwrites what the other one
 * has relied on.
 */
export async function archiveEvents(archive: Archive, events: readonly ArchivedEvent[]): Promise<ArchivedBatch> {
  let bytes = 0;
  for (const [day, ofDay] of Map.groupBy(events, ({ occurredAt }) => dayOf(occurredAt))) {
    const sorted = ofDay.toSorted((a, b) => (a.id < b.id ? -1 : 1));
    const text = sorted.map(lineOf).join('');
    const content = await compress(text, { level: LEVEL });
    const hash = createHash('sha256').update(text).digest('hex').slice(0, 16);
    await archive.put(`${day}/${sorted[0]?.id}-${sorted.at(-1)?.id}.${hash}.ndjson.gz`, content);
    bytes += content.length;
  }
  return { events: events.map(({ id }) => id), bytes };
}

/** `events/2026/11/30` of a time as RFC 3339 writes it, in UTC. */
function dayOf(time: string): string {
  return `events/${time.slice(0, time.indexOf('T')).replaceAll('-', '/')}`;
}
