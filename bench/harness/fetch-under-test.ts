import type { Queryable } from '../../shared/database/index.ts';
import type { InstalledDestination } from '../../shared/outbox/relay/delivery.ts';
import { fetchWindow, readDestinations } from '../../shared/outbox/relay/fetch.ts';

/** The only place of the benchmarks that knows how the relay's fetch is called. */
export async function fetchOnce(db: Queryable, partitions: readonly number[], rows: number): Promise<number> {
  const [destination] = (await readDestinations(db)) as [InstalledDestination];
  const window = await fetchWindow(db, destination, partitions, {
    rows,
    bytes: 32 * 1024 * 1024,
    rowsOfAggregate: 100,
  });
  return window.length;
}

/** Tells the fetch from the relay's other statements. */
export function isFetch(text: string): boolean {
  return text.includes('outbox.fetch') || (text.includes('outbox.event') && text.includes('outbox.delivery'));
}
