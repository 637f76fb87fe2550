import { setTimeout as delay } from 'node:timers/promises';
import type { Message, Publisher, RelayConnection } from '../../shared/outbox/index.ts';
import { EVENT_COLUMNS, messageOf } from './naive-relay.ts';

export interface CursorRelayOptions {
  readonly connect: () => Promise<RelayConnection>;
  readonly publishers: Readonly<Record<string, Publisher>>;
  readonly signal: AbortSignal;
  /** It works on every `of`-th partition from `index` on: fixed, so that no lease can be to blame. */
  readonly index: number;
  readonly of: number;
}

interface Waiting {
  readonly position: string;
  readonly sequence: bigint;
  readonly message: Message;
}

/** The cursor starts over this often, or what committed late would never be found. Milliseconds. */
const SWEEP_MS = 2_000;

/**
 * Ours without the look-up: partitions, chains by sequence, one message of an aggregate in flight, and a cursor over positions. It is here
 * to be caught: a transaction takes its positions when it writes and shows them when it commits, and what it wrote low is found only after
 * the aggregate's next event, written higher, has left.
 */
export async function runCursorRelay(options: CursorRelayOptions): Promise<void> {
  while (!options.signal.aborted) {
    try {
      const db = await options.connect();
      db.on('error', () => {});
      try {
        const lanes = Object.entries(options.publishers).map(([name, publisher]) =>
          runLane(db, name, publisher, options),
        );
        await Promise.all(lanes);
      } finally {
        await db.end().catch(() => {});
      }
    } catch {
      await delay(200);
    }
  }
}

async function runLane(
  db: RelayConnection,
  destination: string,
  publisher: Publisher,
  { signal, index, of }: CursorRelayOptions,
): Promise<void> {
  let cursor = '0';
  let sweptAt = performance.now();
  while (!signal.aborted) {
    if (performance.now() - sweptAt > SWEEP_MS) {
      cursor = '0';
      sweptAt = performance.now();
    }
    const { rows } = await db.query(
      `select d.position, d.sequence as place, ${EVENT_COLUMNS}
         from outbox.delivery d
         join outbox.destination t on t.number = d.destination
         join outbox.event e on e.id = d.event_id
        cross join outbox.installation i
        where t.name = $1 and d.state = 'pending' and d.position > $2 and d.partition % $3 = $4
        order by d.position
        limit 500`,
      [destination, cursor, of, index],
    );
    if (rows.length === 0) {
      await delay(10);
      continue;
    }
    cursor = rows.at(-1).position;
    const chains = new Map<string, Waiting[]>();
    for (const row of rows) {
      const waiting = { position: row.position, sequence: BigInt(row.place), message: messageOf(row) };
      chains.set(waiting.message.groupId, [...(chains.get(waiting.message.groupId) ?? []), waiting]);
    }
    for (const chain of chains.values()) chain.sort((a, b) => (a.sequence < b.sequence ? -1 : 1));
    // A failed head keeps its followers back: whatever breaks the order is not a retry.
    if (!(await sendChains(db, publisher, [...chains.values()]))) cursor = '0';
  }
}

/** Sends heads, ten at a time, until all are out; false when one was refused and its chain was left. */
async function sendChains(db: RelayConnection, publisher: Publisher, chains: Waiting[][]): Promise<boolean> {
  let complete = true;
  let open = chains;
  while (open.length > 0) {
    const ten = open.slice(0, 10);
    const heads = ten.flatMap((chain) => chain.slice(0, 1));
    const results = await publisher.publish(heads.map((head) => head.message)).catch(() => []);
    const published = heads.filter((_, index) => results[index]?.ok === true).map((head) => head.position);
    await db.query(
      `update outbox.delivery set state = 'published', published_at = clock_timestamp() where position = any ($1)`,
      [published],
    );
    const refused = new Set(ten.filter((_, index) => results[index]?.ok !== true));
    if (refused.size > 0) complete = false;
    for (const chain of ten) chain.shift();
    open = open.filter((chain) => chain.length > 0 && !refused.has(chain));
  }
  return complete;
}
