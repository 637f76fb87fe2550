import type { SQSRecord } from 'aws-lambda';
import type { CompiledCatalogue } from '../events/index.ts';
import { applyOnce } from './apply.ts';
import { classifyFailure } from './failure.ts';
import { type Group, groupRecords } from './groups.ts';
import type { AnySteps } from './handlers.ts';
import type { Invocation } from './invocation.ts';
import type { OutcomeReport } from './outcome-report.ts';
import { newestEvent } from './newest-event.ts';
import { readEvent } from './read-event.ts';
import type { ConsumerIdentity } from './register.ts';

/** All that a batch needs beside its messages. */
export interface BatchWork {
  readonly consumer: ConsumerIdentity;
  readonly catalogue: CompiledCatalogue;
  /** The handler of a type, if the consumer has one. */
  readonly stepsOf: (type: string) => AnySteps | undefined;
  readonly invocation: Invocation;
  /** Most groups at once: each needs a connection. */
  readonly concurrency: number;
  readonly report: OutcomeReport;
  readonly monotonicMs: () => number;
}

/**
 * Processes the groups of a batch side by side and each group in order. The first message of a group that fails ends the
 * group: it and those behind it go back, because a FIFO queue gives them out again in this order only when all of them do.
 *
 * @returns the records to return, in the order of the batch
 */
export async function processBatch(records: readonly SQSRecord[], work: BatchWork): Promise<SQSRecord[]> {
  const waiting = groupRecords(records);
  const returned = new Set<SQSRecord>();
  const workGroups = async (): Promise<void> => {
    for (let group = waiting.shift(); group !== undefined; group = waiting.shift()) {
      for (const record of await processGroup(group, work)) returned.add(record);
    }
  };
  await Promise.all(Array.from({ length: Math.min(work.concurrency, waiting.length) }, workGroups));
  return records.filter((record) => returned.has(record));
}

async function processGroup(group: Group, work: BatchWork): Promise<readonly SQSRecord[]> {
  for (const [index, record] of group.records.entries()) {
    const rest = group.records.slice(index);
    if (!work.invocation.mayStart()) {
      work.report.notStarted(rest.length);
      return rest;
    }
    if (!(await processMessage(record, rest.length - 1, work))) return rest;
  }
  return [];
}

/** Whether the message may be acknowledged. */
async function processMessage(record: SQSRecord, behind: number, work: BatchWork): Promise<boolean> {
  const { report } = work;
  const read = readEvent(work.catalogue, record.body);
  if (!read.ok) {
    report.failed(record, read.event, read.failure, behind);
    return false;
  }
  const handler = work.stepsOf(read.event.type);
  // Without a handler nobody looks at the data: what cannot be upcast is no reason to return it.
  const newest = handler === undefined ? read : newestEvent(work.catalogue, read.event);
  if (!newest.ok && newest.failure !== 'ignore') {
    report.failed(record, read.event, newest.failure, behind);
    return false;
  }
  const event = newest.ok ? newest.event : read.event;
  try {
    const willRun = newest.ok ? handler : undefined;
    const applying = applyOnce(work.invocation, work.consumer, event, willRun, work.monotonicMs);
    const applied = await Promise.race([applying, work.invocation.abandoned]);
    report.applied(event, applied.kind === 'ignored' && !newest.ok ? { kind: 'too-old' } : applied);
    return true;
  } catch (error) {
    report.failed(record, event, classifyFailure(error), behind);
    return false;
  }
}
