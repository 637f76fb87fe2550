import { setTimeout as delay } from 'node:timers/promises';
import { buildEnvelope } from '../../shared/events/index.ts';
import type { Message, Publisher, RelayConnection } from '../../shared/outbox/index.ts';

export interface NaiveRelayOptions {
  readonly connect: () => Promise<RelayConnection>;
  readonly publishers: Readonly<Record<string, Publisher>>;
  readonly signal: AbortSignal;
}

/**
 * The relay that everybody writes first: claim rows with SKIP LOCKED, oldest first, send them, mark them, commit. It is here to be
 * caught: while one relay holds an aggregate's first event, another claims and sends the second.
 */
export async function runNaiveRelay({ connect, publishers, signal }: NaiveRelayOptions): Promise<void> {
  while (!signal.aborted) {
    try {
      const db = await connect();
      db.on('error', () => {});
      try {
        while (!signal.aborted) {
          let sent = 0;
          for (const [name, publisher] of Object.entries(publishers)) sent += await sendTen(db, name, publisher);
          if (sent === 0) await delay(20);
        }
      } finally {
        await db.end().catch(() => {});
      }
    } catch {
      await delay(200);
    }
  }
}

async function sendTen(db: RelayConnection, destination: string, publisher: Publisher): Promise<number> {
  await db.query('begin');
  try {
    const { rows } = await db.query(
      `select d.position, ${EVENT_COLUMNS}
         from outbox.delivery d
         join outbox.destination t on t.number = d.destination
         join outbox.event e on e.id = d.event_id
        cross join outbox.installation i
        where t.name = $1 and d.state = 'pending'
        order by d.position
        limit 10
          for update of d skip locked`,
      [destination],
    );
    if (rows.length === 0) return 0;
    const results = await publisher.publish(rows.map(messageOf)).catch(() => []);
    const published = rows.filter((_, index) => results[index]?.ok === true).map((row) => row.position);
    await db.query(
      `update outbox.delivery set state = 'published', published_at = clock_timestamp() where position = any ($1)`,
      [published],
    );
    return rows.length;
  } finally {
    await db.query('commit').catch(() => {});
  }
}

/** What `messageOf` needs, of an event `e` and the installation `i`. */
const EVENT_COLUMNS = `e.id, e.type, e.schema_version, e.aggregate_type, e.aggregate_id, e.sequence, e.data::text as data, e.metadata,
  to_char(e.occurred_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as occurred_at, i.source`;

/** A row as `EVENT_COLUMNS` gives it, as a message. */
function messageOf(row: Readonly<Record<string, string>> & { readonly metadata: null }): Message {
  const body = buildEnvelope({
    id: row['id'] ?? '',
    source: row['source'] ?? '',
    type: row['type'] ?? '',
    schemaVersion: Number(row['schema_version']),
    aggregateType: row['aggregate_type'] ?? '',
    aggregateId: row['aggregate_id'] ?? '',
    sequence: BigInt(row['sequence'] ?? 0),
    occurredAt: row['occurred_at'] ?? '',
    data: row['data'] ?? '',
    metadata: row.metadata,
  });
  return {
    eventId: row['id'] ?? '',
    type: row['type'] ?? '',
    source: row['source'] ?? '',
    body,
    bytes: Buffer.byteLength(body),
    groupId: row['aggregate_id'] ?? '',
    deduplicationId: row['id'] ?? '',
  };
}
