import type { Queryable } from '../../shared/database/index.ts';
import { START } from '../../shared/outbox/relay/cursor.ts';
import { find, load, readInstallation } from '../../shared/outbox/relay/find.ts';

/** The only place of the benchmarks that knows how the relay finds its work: what one look reads, from the start of what is pending. */
export async function fetchOnce(db: Queryable, partitions: readonly number[], rows: number): Promise<number> {
  const { source, destinations } = await readInstallation(db);
  const [destination] = destinations;
  if (destination === undefined) throw new Error('the catalogue has no destination');
  const { chains } = await find(db, { destination, partitions, cursor: START, wake: [], page: rows, cut: 100 });
  const found = chains.flatMap((chain) => chain.rows).slice(0, rows);
  return (await load(db, found, source)).size;
}

/** Tells the fetch from the relay's other statements. */
export function isFetch(text: string): boolean {
  return text.includes('outbox.find') || text.includes('outbox.load');
}
