import { type ArchivedEvent, readArchive } from '../../../shared/archive/index.ts';
import { SealedOutboxError } from '../../../shared/errors/index.ts';
import { listReplays, OperationError, type ReplayScope, returnArchived } from '../../../shared/outbox/index.ts';
import { openArchive } from '../../archive.ts';
import type { Answer, Tools } from './tools.ts';

/**
 * Brings archived events back, whole days of their own time, until the time of this invocation is over. A day that was begun is finished: events of one day
 * are spread over its files.
 */
export async function returnFromArchive(
  { db, archive: address, budgetMs }: Tools,
  { number, fromDay }: { readonly number: number; readonly fromDay?: string | undefined },
): Promise<Answer> {
  if (address === undefined) {
    throw new SealedOutboxError(
      'ARCHIVE_ELSEWHERE',
      'this function reads no archive. Nothing was done. Give its Operator `archive`, or call returnArchived() of the library.',
    );
  }
  const [replay] = await listReplays(db, { number });
  if (replay === undefined) throw new OperationError('DELIVERY_UNKNOWN', `there is no replay ${number}.`);
  const deadline = performance.now() + budgetMs;
  let next: string | null = null;
  const opened = openArchive(address, process.env);
  try {
    const events = wholeDays(readArchive(opened.archive, selectionOf(replay.scope, fromDay)), (day) => {
      if (performance.now() < deadline) return false;
      next = day;
      return true;
    });
    const returned = await returnArchived(db, number, events, { more: () => next !== null });
    return { number, returned, next, more: next !== null };
  } finally {
    opened.close();
  }
}

async function* wholeDays(
  events: AsyncIterable<ArchivedEvent>,
  isEnd: (day: string) => boolean,
): AsyncGenerator<ArchivedEvent> {
  let day: string | undefined;
  for await (const event of events) {
    const of = event.occurredAt.slice(0, 10);
    if (day !== undefined && of !== day && isEnd(of)) return;
    day = of;
    yield event;
  }
}

function selectionOf(
  { aggregateType, aggregateId, types, eventIds, from, to }: ReplayScope,
  fromDay: string | undefined,
): Parameters<typeof readArchive>[1] {
  const starts = [from, fromDay].flatMap((time) => (time === undefined ? [] : [Date.parse(time)]));
  return {
    ...(starts.length > 0 && { from: new Date(Math.max(...starts)) }),
    ...(to !== undefined && { until: new Date(to) }),
    ...(types !== undefined && { types }),
    ...(eventIds !== undefined && { ids: eventIds }),
    ...(aggregateType !== undefined &&
      aggregateId !== undefined && { aggregate: { type: aggregateType, id: aggregateId } }),
  };
}
