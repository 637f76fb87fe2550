import type { ArchivedEvent } from '../../archive/index.ts';
import type { Queryable } from '../../database/index.ts';
import { call } from './call.ts';

/** An event as the archive keeps it; where it was sent to does not matter. */
type Returned = Omit<ArchivedEvent, 'deliveries'>;

/** Events a statement. */
const SLICE = 500;

/**
 * Brings archived events back for a replay that was started with `fromArchive`, and lets it go. Those out of its scope are passed over, those that the
 * table still has are left as they are; so a whole archive can be given, and an interrupted call made again. Only events that this
 * database appended are taken: their streams know their sequences. Role: `outbox_replayer`.
 *
 * @param events `readArchive(archive, …)`, in any order
 * @param options.more asked when all are written: whether others come with a later call, so that the replay goes on waiting. Default: none do
 * @returns how many messages the archived events add to the replay
 * @throws OperationError: `NOT_IN_STATE` when the replay does not wait for archived events, `OPERATION_ARGUMENT` for an event that was never appended
 */
export async function returnArchived(
  db: Queryable,
  replay: number,
  events: AsyncIterable<Returned> | Iterable<Returned>,
  options: { readonly more?: () => boolean } = {},
): Promise<number> {
  let planned = 0;
  let slice: string[] = [];
  const write = async (): Promise<void> => {
    if (slice.length === 0) return;
    const [row] = await call(db, 'select outbox.return_events($1, $2)::float8 as planned', [
      replay,
      `[${slice.join(',')}]`,
    ]);
    planned += row.planned;
    slice = [];
  };
  for await (const event of events) {
    slice.push(rowOf(event));
    if (slice.length === SLICE) await write();
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
