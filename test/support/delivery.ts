import { createHash } from 'node:crypto';
import type { Delivery, InstalledDestination } from '../../shared/outbox/relay/delivery.ts';

export const LEDGER: InstalledDestination = {
  number: 1,
  name: 'ledger',
  kind: 'sqs-fifo',
  ordered: true,
  groupId: 'aggregate-id',
};

export interface DeliveryOptions {
  readonly aggregate: string;
  readonly sequence: number;
  readonly partition?: number;
  readonly attempts?: number;
  readonly run?: number;
  /** JSON text. */
  readonly data?: string;
}

/** A delivery of `invoice.issued`; its event id is read off aggregate and sequence, so that tests can name it. */
export function delivery(options: DeliveryOptions): Delivery {
  const { aggregate, sequence, partition = 0, attempts = 0, run = 0, data = '{}' } = options;
  return {
    position: createHash('sha256').update(`${aggregate} ${sequence}`).digest().readBigUInt64BE(0).toString(),
    destination: LEDGER.name,
    partition,
    aggregateKey: `key of ${aggregate}`,
    sequence: BigInt(sequence),
    attempts,
    run,
    event: {
      id: eventId(aggregate, sequence),
      source: '/invoices',
      type: 'invoice.issued',
      schemaVersion: 1,
      aggregateType: 'invoice',
      aggregateId: aggregate,
      sequence: String(sequence),
      occurredAt: '2030-01-01T00:00:00.000000Z',
      data,
      metadata: null,
    },
  };
}

function eventId(aggregate: string, sequence: number): string {
  return `${aggregate}#${sequence}`;
}
