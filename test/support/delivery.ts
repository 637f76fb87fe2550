import { createHash } from 'node:crypto';
import { absorb, type Backlog, emptyBacklog } from '../../shared/outbox/relay/backlog.ts';
import type { Delivery, InstalledDestination } from '../../shared/outbox/relay/delivery.ts';

export const LEDGER: InstalledDestination = {
  number: 1,
  name: 'ledger',
  kind: 'sqs-fifo',
  ordered: true,
  groupId: 'aggregate-id',
  retired: false,
};

export interface DeliveryOptions {
  readonly aggregate: string;
  readonly sequence: number;
  readonly partition?: number;
  readonly attempts?: number;
  readonly run?: number;
  /** JSON text. */
  readonly data?: string;
  /** What the database takes for the message's size. */
  readonly bytes?: number;
}

/** A delivery of `invoice.issued`; its event id is read off aggregate and sequence, so that tests can name it. */
export function delivery(options: DeliveryOptions): Delivery {
  const { aggregate, sequence, partition = 0, attempts = 0, run = 0, data = '{}', bytes = 500 + data.length } = options;
  const id = `${aggregate}#${sequence}`;
  return {
    position: createHash('sha256').update(id).digest().readBigUInt64BE(0).toString(),
    eventId: id,
    key: `key of ${aggregate}`,
    partition,
    sequence: BigInt(sequence),
    attempts,
    run,
    bytes,
    state: 'pending',
    dueInMs: 0,
    event: {
      id,
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

/** A backlog that holds these, as one scan would have found them. */
export function backlogOf(deliveries: readonly Delivery[], ordered = true): Backlog {
  const backlog = emptyBacklog();
  const byKey = new Map<string, Delivery[]>();
  for (const row of deliveries) {
    const key = ordered ? row.key : row.position;
    byKey.set(key, [...(byKey.get(key) ?? []), row]);
  }
  const loaded = new Map(deliveries.map((row) => [row.position, row]));
  for (const [key, rows] of byKey) absorb(backlog, { key, rows, cut: false }, 1, loaded, 0);
  return backlog;
}

/** Some aggregates with the events 1 to `length`. */
export function aggregates(names: readonly string[], length = 1): Delivery[] {
  return names.flatMap((aggregate) =>
    Array.from({ length }, (_, index) => delivery({ aggregate, sequence: index + 1 })),
  );
}

export const letters = (count: number): string[] => Array.from({ length: count }, (_, index) => `a${index}`);
