import { randomUUID } from 'node:crypto';
import type { SQSRecord } from 'aws-lambda';
import { v7 as uuidv7 } from 'uuid';
import { buildEnvelope } from '../../shared/events/index.ts';

/** The sample's invoices: each is issued, and then paid in small parts. */
export interface Invoices {
  readonly ids: readonly string[];
  /** Events of each. */
  readonly events: number;
  /** Sequence of the first of them; 1 is the issue. */
  readonly first?: number;
}

/** Ids of `count` new invoices. */
export function invoiceIds(count: number): string[] {
  return Array.from({ length: count }, () => randomUUID());
}

/** The message of one event as a queue hands it out. Its group is the invoice. */
export function invoiceRecord(id: string, sequence: number, occurredAt = new Date().toISOString()): SQSRecord {
  const eventId = uuidv7();
  const issued = sequence === 1;
  const data = issued
    ? {
        invoiceId: id,
        customerId: id,
        currency: 'EUR',
        totalMinor: 1_000_000,
        lines: Array.from({ length: 5 }, (_, n) => ({
          description: `An article with a name of some length, number ${n}`,
          quantity: 2,
          unitPriceMinor: 100_000,
        })),
        dueOn: '2030-01-31',
      }
    : {
        invoiceId: id,
        paymentId: eventId,
        currency: 'EUR',
        amountMinor: 100,
        paidMinor: 100 * (sequence - 1),
        remainingMinor: 1_000_000 - 100 * (sequence - 1),
      };
  const body = buildEnvelope({
    id: eventId,
    source: '/invoices',
    type: issued ? 'invoice.issued' : 'invoice.payment-recorded',
    schemaVersion: 1,
    aggregateType: 'invoice',
    aggregateId: id,
    sequence: BigInt(sequence),
    occurredAt,
    data: JSON.stringify(data),
    metadata: { correlationid: id },
  });
  return {
    messageId: eventId,
    receiptHandle: eventId,
    body,
    attributes: {
      ApproximateReceiveCount: '1',
      SentTimestamp: String(Date.now()),
      SenderId: 'relay',
      ApproximateFirstReceiveTimestamp: String(Date.now()),
      MessageGroupId: id,
      MessageDeduplicationId: eventId,
    },
    messageAttributes: {},
    md5OfBody: '',
    eventSource: 'aws:sqs',
    eventSourceARN: 'arn:aws:sqs:eu-central-1:000000000000:ledger.fifo',
    awsRegion: 'eu-central-1',
  };
}

/** Batches in which invoices take turns, so that ten messages are of ten of them, as a queue gives them out whose groups are many. */
export function batches({ ids, events, first = 1 }: Invoices, size = 10): SQSRecord[][] {
  const records = Array.from({ length: events }, (_, n) => ids.map((id) => invoiceRecord(id, first + n))).flat();
  return Array.from({ length: Math.ceil(records.length / size) }, (_, n) => records.slice(n * size, (n + 1) * size));
}
