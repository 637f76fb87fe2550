import type pg from 'pg';
import type { Queryable, Result } from '../../shared/database/index.ts';
import { fetchWindow, readDestinations } from '../../shared/outbox/relay/fetch.ts';

/** The statement that a fetch runs. */
interface Statement {
  readonly text: string;
  readonly values: readonly unknown[];
}

export interface FetchTimes {
  /** As the relay sees it: the way there, and the rows as objects. Milliseconds. */
  readonly client: number[];
  /** Planning and execution, as the server counts them. Milliseconds. */
  readonly server: number[];
}

const BYTES = 32 * 1024 * 1024;

/** This function and the next are the only places of the benchmarks that know how the relay's fetch is called. */
async function fetchOnce(db: Queryable, partitions: readonly number[], rows: number): Promise<number> {
  const [destination] = await readDestinations(db);
  if (destination === undefined) throw new Error('no destination is installed');
  const limits = { rows, bytes: BYTES, rowsOfAggregate: 100 };
  const startedAt = performance.now();
  const window = await fetchWindow(db, destination, partitions, limits);
  const ms = performance.now() - startedAt;
  if (window.length < rows) throw new Error(`the fetch found ${window.length} of ${rows} events`);
  return ms;
}

/** Tells the fetch from the relay's other statements. */
export function isFetch(text: string): boolean {
  return text.includes('outbox.fetch') || (text.includes('outbox.event') && text.includes('outbox.delivery'));
}

/** Fetches `times` windows of `rows` events, each from another half of the partitions, so that not one window's rows alone are cached. */
export async function timeFetches(client: pg.Client, times: number, rows: number): Promise<FetchTimes> {
  const result: FetchTimes = { client: [], server: [] };
  for (let n = 0; n < times; n += 1) {
    let statement: Statement | undefined;
    const recording: Queryable = {
      query(text: string, values: readonly unknown[] = []): Promise<Result> {
        if (isFetch(text)) statement = { text, values };
        return client.query(text, [...values]);
      },
    };
    const partitions = Array.from({ length: 64 }, (_, partition) => partition).filter(() => Math.random() < 0.5);
    result.client.push(await fetchOnce(recording, partitions, rows));
    if (statement === undefined) throw new Error('no statement of the fetch was seen: isFetch does not know it');
    result.server.push(await serverTime(client, statement));
  }
  return result;
}

async function serverTime(client: pg.Client, { text, values }: Statement): Promise<number> {
  const { rows } = await client.query(`explain (analyze, timing off, format json) ${text}`, [...values]);
  const [plan] = rows[0]['QUERY PLAN'];
  return plan['Planning Time'] + plan['Execution Time'];
}
