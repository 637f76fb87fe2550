import { readArchive } from '../../../shared/archive/index.ts';
import { SealedOutboxError } from '../../../shared/errors/index.ts';
import { listReplays, OperationError, type ReplayScope, returnArchived } from '../../../shared/outbox/index.ts';
import { openArchive } from '../../archive.ts';
import type { Answer, Tools } from './tools.ts';

/** Brings archived events back, day by day of their own time, until the time of this invocation is over. A file of a day that was begun is finished. */
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
  let begun = false;
  let next: string | null = null;
  const mayGoOn = (place: string): boolean => {
    // One at least, or a call whose time is over would be made for ever.
    if (begun && performance.now() >= deadline) next = place;
    begun = true;
    return next === null;
  };
  const opened = openArchive(address, process.env);
  try {
    const turn = { mayGoOn, ...(fromDay !== undefined && { from: fromDay }) };
    const events = readArchive(opened.archive, selectionOf(replay.scope, fromDay), turn);
    const returned = await returnArchived(db, number, events, { more: () => next !== null });
    return { number, returned, next, more: next !== null };
  } finally {
    opened.close();
  }
}

/** Days before the one that it goes on at are not even listed. */
function selectionOf(
  { aggregateType, aggregateId, types, eventIds, from, to }: ReplayScope,
  fromDay: string | undefined,
): Parameters<typeof readArchive>[1] {
  const starts = [from, fromDay?.slice(0, 10)].flatMap((time) => (time === undefined ? [] : [Date.parse(time)]));
  return {
    ...(starts.length > 0 && { from: new Date(Math.max(...starts)) }),
    ...(to !== undefined && { until: new Date(to) }),
    ...(types !== undefined && { types }),
    ...(eventIds !== undefined && { ids: eventIds }),
    ...(aggregateType !== undefined &&
      aggregateId !== undefined && { aggregate: { type: aggregateType, id: aggregateId } }),
  };
}
