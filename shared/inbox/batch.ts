import type { SQSRecord } from 'aws-lambda';
import { type Applied, applyTogether, keep, ownTransaction, runBefore } from './apply.ts';
import { OutOfTimeError } from './errors.ts';
import { classifyFailure, type Failure } from './failure.ts';
import { groupRecords } from './groups.ts';
import { countFailure, hold, type HeldReason, toTryAgain } from './hold.ts';
import { type EventMessage, type Message, readMessages } from './message.ts';
import { noteWaiting, type Work } from './work.ts';

/** A few messages are worth a connection of their own; fewer go faster in the transaction of others. */
const WORTH_A_CONNECTION = 5;
/** The same where each handler takes many events: its calls are few, however many share the transaction. */
const MANY_WORTH_A_CONNECTION = 25;
/** Of the time left: a transaction of several messages that takes longer is given up, and each goes on in its own. */
const SHARE_OF_TIME = 1 / 3;

/**
 * Processes a batch: messages of several groups together in one transaction, each group in order. Where that fails, whatever the cause,
 * nothing of it was kept, and the messages are applied one by one: one that fails ends its group, and it and those behind it
 * go back, because a FIFO queue gives them out again in this order only when all of them do.
 *
 * @returns the records to return, in the order of the batch
 */
export async function processBatch(records: readonly SQSRecord[], work: Work): Promise<SQSRecord[]> {
  const messages = await readInTime(records, work);
  if (messages === null) return [...records];
  const groups = groupRecords(records).map((group) => group.records.map((record) => messages.get(record) as Message));
  const returned = new Set<SQSRecord>();
  const left: Message[][] = [];
  await eachOf(bundles(groups, records.length, work), work.concurrency, async (bundle) => {
    left.push(...(await processTogether(bundle, work)));
  });
  await eachOf(left, work.concurrency, async (group) => {
    for (const record of await processGroup(group, work)) returned.add(record);
  });
  return records.filter((record) => returned.has(record));
}

/** Keys are loaded here, before any transaction. Null: that took all the time there was. */
async function readInTime(records: readonly SQSRecord[], work: Work): Promise<Map<SQSRecord, Message> | null> {
  try {
    const messages = await Promise.race([readMessages(work, records), work.invocation.abandoned]);
    return new Map(messages.map((message) => [message.record, message]));
  } catch (error) {
    if (!(error instanceof OutOfTimeError)) throw error;
    work.report.notStarted(records.length);
    return null;
  }
}

/** Runs `task` for each item, `most` at a time. */
export async function eachOf<T>(items: Iterable<T>, most: number, task: (item: T) => Promise<void>): Promise<void> {
  const waiting = items[Symbol.iterator]();
  const workThrough = async (): Promise<void> => {
    for (let next = waiting.next(); next.done !== true; next = waiting.next()) await task(next.value);
  };
  await Promise.all(Array.from({ length: most }, workThrough));
}

/** Groups that share a transaction: as few transactions as there are connections for, none larger than `together` unless one group is. */
function bundles(groups: readonly Message[][], messages: number, { concurrency, together }: Work): Message[][][] {
  const worth = groups.flat().every((message) => takesMany(message)) ? MANY_WORTH_A_CONNECTION : WORTH_A_CONNECTION;
  const size = Math.min(together, Math.max(worth, Math.ceil(messages / concurrency)));
  const bundled: Message[][][] = [];
  let room = 0;
  for (const group of groups) {
    if (bundled.length === 0 || group.length > room) {
      bundled.push([]);
      room = size;
    }
    bundled.at(-1)?.push(group);
    room -= group.length;
  }
  return bundled;
}

function takesMany(message: Message): boolean {
  return message.kind === 'event' && message.steps?.handleMany !== undefined;
}

/** What of a group may share a transaction: from its first message up to one that calls other systems or can not be read or opened. */
function shareable(group: readonly Message[]): readonly Message[] {
  const end = group.findIndex(
    (message) =>
      message.kind === 'unreadable' ||
      message.kind === 'unopened' ||
      (message.kind === 'event' && message.steps?.before !== undefined),
  );
  return end === -1 ? group : group.slice(0, end);
}

/** Applies several messages in one transaction. Gives what is left to do of each group: all of it if that did not work. */
async function processTogether(groups: readonly Message[][], work: Work): Promise<Message[][]> {
  const parts = groups.map((group) => shareable(group));
  const messages = parts.flat();
  const events = messages.filter((message) => message.kind === 'event');
  if (events.length < 2 || work.together < 2 || !work.invocation.mayStart()) return [...groups];
  let over: NodeJS.Timeout | undefined;
  try {
    const client = await Promise.race([work.invocation.connect(), work.invocation.abandoned]);
    const late = new Promise<never>((_resolve, reject) => {
      over = setTimeout(
        () => {
          client.release(true);
          reject(new OutOfTimeError());
        },
        Math.max(0, work.invocation.remainingMs()) * SHARE_OF_TIME,
      );
    });
    const applied = await Promise.race([applyTogether(work, client, events), late, work.invocation.abandoned]);
    for (const [index, { event }] of events.entries()) {
      const outcome = applied[index];
      if (outcome !== undefined) work.report.applied(event, outcome);
    }
  } catch (error) {
    work.report.apart(classifyFailure(error), events.length);
    return [...groups];
  } finally {
    clearTimeout(over);
  }
  for (const message of messages) {
    if (message.kind === 'ignored') work.report.applied(message.event, { kind: message.passedAs });
  }
  return groups.map((group, index) => group.slice(parts[index]?.length)).filter((group) => group.length > 0);
}

async function processGroup(group: readonly Message[], work: Work): Promise<readonly SQSRecord[]> {
  for (const [index, message] of group.entries()) {
    const rest = group.slice(index).map(({ record }) => record);
    if (!work.invocation.mayStart()) {
      work.report.notStarted(rest.length);
      return rest;
    }
    if (!(await processMessage(message, rest.length - 1, work))) return rest;
  }
  return [];
}

/** Whether the message may be acknowledged. */
async function processMessage(message: Message, behind: number, work: Work): Promise<boolean> {
  const { report, invocation } = work;
  const { record, event } = message;
  try {
    if (message.kind === 'ignored') {
      report.applied(message.event, { kind: message.passedAs });
      return true;
    }
    if (message.kind === 'unopened') {
      report.failed(record, message.event, message.failure, behind);
      return false;
    }
    if (message.kind === 'unreadable') {
      const kept = await Promise.race([keep(work, message, true), invocation.abandoned]);
      report.kept(record, event, message.failure, kept);
      return true;
    }
    report.applied(message.event, await Promise.race([applyAlone(work, message), invocation.abandoned]));
    return true;
  } catch (error) {
    return fail(message as EventMessage, classifyFailure(error), behind, work);
  }
}

async function applyAlone(work: Work, message: EventMessage): Promise<Applied> {
  const before = await runBefore(work, message);
  const [applied] = await applyTogether(work, await work.invocation.connect(), [message], before);
  return applied ?? { kind: 'repeat' };
}

/** What becomes of a message that could not be applied: counted, kept or returned. Whether it may be acknowledged. */
async function fail(message: EventMessage, failure: Failure, behind: number, work: Work): Promise<boolean> {
  const { record, event } = message;
  try {
    if (failure.class === 'malformed') {
      const unreadable = { kind: 'unreadable', record, event, reason: 'malformed', failure } as const;
      work.report.kept(
        record,
        event,
        failure,
        await Promise.race([keep(work, unreadable, true), work.invocation.abandoned]),
      );
      return true;
    }
    if (failure.class === 'handler') {
      const { held, attempts } = await Promise.race([countAlone(work, message, failure), work.invocation.abandoned]);
      if (held) {
        work.report.kept(record, event, failure, { kind: 'held', reason: 'failing' satisfies HeldReason }, attempts);
        noteWaiting(work, { type: event.aggregateType, id: event.aggregateId });
        return true;
      }
    }
  } catch (error) {
    // It could not be written down: the message goes back, uncounted.
    work.report.notWritten(classifyFailure(error));
  }
  work.report.failed(record, event, failure, behind);
  return false;
}

/**
 * In a transaction of its own: the one in which the handler failed was rolled back. What cannot be returned is held with its first failure, to be
 * tried again from there: Lambda counts invocations, and the last of them may fail for another reason.
 */
export async function countAlone(
  work: Work,
  message: EventMessage,
  failure: Failure,
): Promise<{ readonly attempts: number; readonly held: boolean }> {
  const attempts = failure.final === true ? 1 : work.attempts;
  return ownTransaction(work, async (tx) => {
    const counted = await countFailure(tx, work, message.event, message.record.body, failure, attempts);
    if (counted.held || !work.direct) return counted;
    await hold(tx, work, [toTryAgain(work, message, failure)]);
    return { ...counted, held: true };
  });
}
