import type { SQSRecord } from 'aws-lambda';

/** Messages that must be processed one after the other. */
export interface Group {
  /** The message group of a FIFO queue; `null` for a message of a standard queue, which is a group of its own. */
  readonly id: string | null;
  /** In the order of the batch. Never empty. */
  readonly records: readonly [SQSRecord, ...SQSRecord[]];
}

/**
 * The message group of a FIFO queue; undefined for a message of any other.
 *
 * The queue's ARN says whether it is FIFO. The attribute `MessageGroupId` alone does not: a standard queue carries it too
 * when the sender uses it for fair sharing, and promises no order by it.
 */
export function groupOf({ eventSourceARN, attributes }: SQSRecord): string | undefined {
  return eventSourceARN.endsWith('.fifo') ? attributes.MessageGroupId : undefined;
}

/** Splits a batch into its groups, in the order in which they first appear. */
export function groupRecords(records: readonly SQSRecord[]): Group[] {
  const groups: { id: string | null; records: [SQSRecord, ...SQSRecord[]] }[] = [];
  const byId = new Map<string, [SQSRecord, ...SQSRecord[]]>();
  for (const record of records) {
    const id = groupOf(record);
    const known = id === undefined ? undefined : byId.get(id);
    if (known !== undefined) {
      known.push(record);
      continue;
    }
    const group: [SQSRecord, ...SQSRecord[]] = [record];
    groups.push({ id: id ?? null, records: group });
    if (id !== undefined) byId.set(id, group);
  }
  return groups;
}
