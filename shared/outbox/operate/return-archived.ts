import type { ArchivedEvent } from '../../archive/index.ts';
import type { Queryable } from '../../database/index.ts';
import { call } from './call.ts';

/** An event as the archive keeps it; where it was sent to does not matter. */
type Returned = Omit<ArchivedEvent, 'deliveries'>;

/** Events a statement at most. */
const SLICE = 500;
/** Characters with which a statement is full: 500 events of 1 MB are more than an operator's function has. */
const SLICE_LENGTH = 16_000_000;

/**
 * Brings archived events back for a replay that was started with `fromArchive`, and lets it go. Those out of its scope, or without a route to its
 * destination, are passed over, those that the table still has are left as they are; so a whole archive can be given, and an interrupted call made again. An
 * event is refused where it cannot have been appended here, by its type, version, aggregate and sequence; its data is believed. Role: `outbox_replayer`.
 *
 * @param events `readArchive(archive, …)`, in any order
 * @param options.more asked when all are written: whether others come with a later call, so that the replay goes on waiting. Default: none do
 * @returns how many messages the archived events add to the replay
 * @throws OperationError: `NOT_IN_STATE` when the replay does not wait for archived events, `OPERATION_ARGUMENT` for an event that cannot have been appended here, or a second one in its place
 */
export async function returnArchived(
  db: Queryable,
  replay: number,
  events: AsyncIterable<Returned> | Iterable<Returned>,
  options: { readonly more?: () => boolean } = {},
): Promise<number> {
  let planned = 0;
  let slice: string[] = [];
  let length = 0;
  const write = async (): Promise<void> => {
    if (slice.length === 0) return;
    const [row] = await call(db, 'select outbox.return_events($1, $2)::float8 as planned', [
      replay,
      `[${slice.join(',')}]`,
    ]);
    planned += row.planned;
    slice = [];
    length = 0;
  };
  for await (const event of events) {
    const row = rowOf(event);
    slice.push(row);
    length += row.length;
    if (slice.length === SLICE || length >= SLICE_LENGTH) await write();
  }
  await write();
  if (options.more?.() !== true) await call(db, 'select outbox.end_returning($1)', [replay]);
  return planned;
}

/** `data` goes in as text, digit by digit. */
function rowOf(event: Returned): string {
  const head = JSON.stringify({
    id: event.id,
    aggregate_type: event.aggregateType,
    aggregate_id: event.aggregateId,
    type: event.type,
    schema_version: event.schemaVersion,
    occurred_at: event.occurredAt,
  });
  return `${head.slice(0, -1)},"sequence":${event.sequence},"metadata":${event.metadata ?? 'null'},"data":${event.data}}`;
}
