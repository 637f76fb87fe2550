import type { Queryable, Row } from '../../database/index.ts';
import type { FoundChain } from './backlog.ts';
import { type Cursor, cursorBefore, type Scan } from './cursor.ts';
import type { Delivery, Found, InstalledDestination } from './delivery.ts';

export interface FindRequest {
  readonly destination: InstalledDestination;
  readonly partitions: readonly number[];
  readonly cursor: Cursor;
  /** Keys to look up whether the scan meets them or not. */
  readonly wake: readonly string[];
  /** Rows of the page at most. */
  readonly page: number;
  /** Rows of one aggregate at most: a longer one comes in slices, never with a hole. */
  readonly cut: number;
  /** Where the look-ups of some aggregates may begin; see `floors.ts`. */
  readonly floors: ReadonlyMap<string, bigint>;
}

export interface FindResult {
  readonly scan: Scan;
  readonly chains: readonly FoundChain[];
}

/** One snapshot's news for a lane; the SQL and its reasons are in `migrations/outbox/0005_find.sql` and `0007_find.sql`. */
export async function find(db: Queryable, request: FindRequest): Promise<FindResult> {
  const { destination, partitions, cursor, wake, page, cut, floors } = request;
  const { rows } = await db.query(
    `select key, position, event_id, partition, sequence, attempts, run, bytes, state, due_in_ms, scan
       from outbox.find($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
    [
      destination.number,
      destination.ordered,
      partitions,
      cursor.xid,
      cursor.position,
      [...cursor.open.keys()],
      [...cursor.open.values()],
      destination.ordered ? wake : [],
      destination.ordered ? [] : wake,
      page,
      cut,
      JSON.stringify(Object.fromEntries(Array.from(floors, ([key, sequence]) => [key, String(sequence)]))),
    ],
  );
  return { scan: rows[0]?.scan as Scan, chains: chainsOf(rows, destination, cut) };
}

/** The chains of a find's rows; the row about the scan has no key. */
export function chainsOf(rows: readonly Row[], { ordered }: InstalledDestination, cut: number): FoundChain[] {
  const byKey = new Map<string, Found[]>();
  for (const row of rows) {
    if (row.key === null) continue;
    const key = ordered ? row.key : row.position;
    const found: Found = {
      position: row.position,
      eventId: row.event_id,
      key: row.key,
      partition: row.partition,
      sequence: BigInt(row.sequence),
      attempts: row.attempts,
      run: row.run,
      bytes: row.bytes,
      state: row.state,
      dueInMs: row.due_in_ms,
    };
    const chain = byKey.get(key);
    if (chain === undefined) byKey.set(key, [found]);
    else chain.push(found);
  }
  return [...byKey].map(([key, found]) => ({
    key,
    // The function orders its rows, but order must not rest on that alone.
    rows: found.toSorted((a, b) => (a.sequence < b.sequence ? -1 : 1)),
    cut: ordered && found.length >= cut,
  }));
}

/** Reads the events behind `found`, by position. Events never change, so any snapshot will do. */
export async function load(db: Queryable, found: readonly Found[], source: string): Promise<Map<string, Delivery>> {
  const loaded = new Map<string, Delivery>();
  if (found.length === 0) return loaded;
  const { rows } = await db.query(
    'select id, type, schema_version, aggregate_type, aggregate_id, data, metadata, occurred_at from outbox.load($1)',
    [found.map((row) => row.eventId)],
  );
  const events = new Map(rows.map((row) => [row.id, row]));
  for (const row of found) {
    const event = events.get(row.eventId);
    if (event === undefined) continue;
    loaded.set(row.position, {
      ...row,
      event: {
        id: event.id,
        source,
        type: event.type,
        schemaVersion: event.schema_version,
        aggregateType: event.aggregate_type,
        aggregateId: event.aggregate_id,
        sequence: row.sequence,
        occurredAt: event.occurred_at,
        data: event.data,
        metadata: event.metadata,
      },
    });
  }
  return loaded;
}

/**
 * Notes down, for relays that start from now on, up to where everything at this destination is out, and returns it as a cursor: a walk
 * that begins there misses nothing, and does not meet what has long been sent. `migrations/outbox/0007_find.sql` says why.
 */
export async function markLowWater(db: Queryable, destination: InstalledDestination): Promise<Cursor> {
  const { rows } = await db.query('select xid, open::text[] as open from outbox.mark_low_water($1)', [
    destination.number,
  ]);
  return cursorBefore(rows[0].xid, rows[0].open);
}

export interface Installation {
  readonly source: string;
  /** Identity of the database cluster, where the deployment fixed one. */
  readonly cluster: string | null;
  readonly destinations: readonly InstalledDestination[];
}

export async function readInstallation(db: Queryable): Promise<Installation> {
  const { rows } = await db.query(`
    select i.source, i.cluster, d.number, d.name, d.kind, d.ordered, d.group_id as "groupId",
           d.retired_at is not null as retired
      from outbox.installation i
      left join outbox.destination d on true
     order by d.number`);
  const destinations = rows
    .filter((row) => row.number !== null)
    .map(({ number, name, kind, ordered, groupId, retired }) => ({ number, name, kind, ordered, groupId, retired }));
  return { source: rows[0].source, cluster: rows[0].cluster, destinations };
}
