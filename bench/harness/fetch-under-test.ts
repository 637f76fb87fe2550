import type pg from 'pg';
import type { Queryable, Result } from '../../shared/database/index.ts';
import { advanceCursor, START } from '../../shared/outbox/relay/cursor.ts';
import { find, load, readInstallation } from '../../shared/outbox/relay/find.ts';

/** This file is the only place of the benchmarks that knows how the relay reads. */
export interface FetchTimes {
  /** As the relay sees it: the way there, and the rows as objects. Milliseconds. */
  readonly client: number[];
  /** Planning and execution, as the server counts them. Milliseconds. */
  readonly server: number[];
}

const FIND = 'outbox.find(';
const LOAD = 'outbox.load(';
const PARTITIONS = Array.from({ length: 64 }, (_, partition) => partition);

/** Whether this was a scan that found something: its first row is about the scan itself. */
export function isFind(text: string, rows: readonly unknown[]): boolean {
  return text.includes(FIND) && rows.length > 1;
}

/**
 * Walks along the backlog as a relay does, `times` times `events` events: the scan, the look-up of their aggregates, and their events.
 * `cut` is how many events of one aggregate come at once. At the end of the backlog the walk begins anew.
 */
export async function timeFetches(client: pg.Client, times: number, events: number, cut = 1): Promise<FetchTimes> {
  const result: FetchTimes = { client: [], server: [] };
  let statements: { text: string; values: readonly unknown[] }[] = [];
  const recording: Queryable = {
    query(text: string, values: readonly unknown[] = []): Promise<Result> {
      if (text.includes(FIND) || text.includes(LOAD)) statements.push({ text, values });
      return client.query(text, [...values]);
    },
  };
  const { source, destinations } = await readInstallation(client);
  const [destination] = destinations;
  if (destination === undefined) throw new Error('no destination is installed');
  let cursor = START;
  while (result.client.length < times) {
    statements = [];
    const startedAt = performance.now();
    const request = { destination, partitions: PARTITIONS, cursor, wake: [], page: events, cut, floors: new Map() };
    const { scan, chains } = await find(recording, request);
    const found = chains.flatMap((chain) => chain.rows).slice(0, events);
    await load(recording, found, source);
    const ms = performance.now() - startedAt;
    if (scan.rows < events) {
      if (cursor === START) throw new Error(`only ${scan.rows} events are pending: too few to fetch ${events}`);
      cursor = START;
      continue;
    }
    cursor = advanceCursor(cursor, scan, events);
    result.client.push(ms);
    let server = 0;
    for (const statement of statements) server += await serverTime(client, statement);
    result.server.push(server);
  }
  return result;
}

async function serverTime(
  client: pg.Client,
  { text, values }: { text: string; values: readonly unknown[] },
): Promise<number> {
  const { rows } = await client.query(`explain (analyze, timing off, format json) ${text}`, [...values]);
  const [plan] = rows[0]['QUERY PLAN'];
  return plan['Planning Time'] + plan['Execution Time'];
}
