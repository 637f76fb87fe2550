import type { SQSRecord } from 'aws-lambda';
import { contextFor, invoke } from '../support/sqs-batch.ts';
import { type Random, shuffled } from './random.ts';
import type { AccountData } from './read-models.ts';

/** Time of an invocation, more than a busy machine needs; and where a handler may hang. Milliseconds. */
const INVOCATION_MS = 10_000;
const HANGING_MS = 2_000;
/** Chance that a delivery is kept for one more, when later messages have long been applied. */
const STALE = 0.2;
const KEPT = 20;
/** Chance that two deliveries of a batch are under way at once. */
const AT_ONCE = 0.3;

export interface Deliveries {
  /** Delivers a batch one to three times, in an order that its queue may choose; gives the ids that were acknowledged by any of them. */
  readonly deliver: (records: readonly SQSRecord[]) => Promise<ReadonlySet<string>>;
}

export interface DeliveriesOptions {
  readonly handler: unknown;
  /** A standard queue gives out in any order; a FIFO queue each group in its own. */
  readonly fifo: boolean;
  readonly random: Random;
  /** Share of the batches that are delivered more than once. */
  readonly share: number;
  readonly injected: (kind: string, times: number) => void;
}

/** Deliveries of one poller, as the queue's promise of "at least once" allows them. */
export function deliveries({ handler, fifo, random, share, injected }: DeliveriesOptions): Deliveries {
  const stale: (readonly SQSRecord[])[] = [];
  const arranged = (records: readonly SQSRecord[]): readonly SQSRecord[] =>
    fifo ? records : shuffled(random, records);
  const once = async (records: readonly SQSRecord[]): Promise<string[]> => {
    const ms = records.some(mayHang) ? HANGING_MS : INVOCATION_MS;
    const returned = new Set(await invoke(handler, arranged(records), contextFor(ms)));
    return records.map(({ messageId }) => messageId).filter((id) => !returned.has(id));
  };
  return {
    async deliver(records) {
      const times = random() < share ? 1 + Math.floor(random() * 3) : 1;
      const atOnce = random() < AT_ONCE;
      const acknowledged = new Set<string>();
      const kept =
        stale.length > 0 && random() < STALE ? stale.splice(Math.floor(random() * stale.length), 1)[0] : undefined;
      if (kept !== undefined) {
        injected('message delivered again, late', kept.length);
        await once(kept);
      }
      for (let delivery = 0; delivery < times; delivery += atOnce ? 2 : 1) {
        const together = Array.from({ length: atOnce ? Math.min(2, times - delivery) : 1 }, () => once(records));
        for (const ids of await Promise.all(together)) for (const id of ids) acknowledged.add(id);
      }
      if (times > 1) injected('message delivered again', (times - 1) * records.length);
      if (random() < share * STALE) stale.push(records);
      if (stale.length > KEPT) stale.shift();
      return acknowledged;
    },
  };
}

/** It hangs twice: what comes for the fourth time is only slow, as on a busy machine. */
function mayHang({ body, attributes }: SQSRecord): boolean {
  return (
    Number(attributes.ApproximateReceiveCount) <= 3 &&
    (JSON.parse(body) as { data: AccountData }).data.fault === 'hangs'
  );
}
