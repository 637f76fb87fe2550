import type { PublisherLimits } from '../publish/publisher.ts';
import { type Backlog, heads } from './backlog.ts';
import type { Delivery } from './delivery.ts';

export interface Packed<M> {
  readonly key: string;
  readonly delivery: Delivery;
  readonly message: M;
}

export interface Batch<M> {
  /** Goes out in one call: heads of different aggregates, so that a partial failure reorders nothing. */
  readonly entries: readonly Packed<M>[];
  /** Larger than the destination takes even alone; they never go. */
  readonly oversized: readonly Packed<M>[];
}

/**
 * Fills one call with heads: at most `limits.entries` of them and at most `limits.bytes` together. The order of the heads is kept;
 * the first that no longer fits closes the batch.
 */
export function packBatch<M extends { readonly bytes: number }>(
  backlog: Backlog,
  limits: PublisherLimits,
  toMessage: (delivery: Delivery) => M,
  mayStart: (partition: number) => boolean = () => true,
): Batch<M> {
  const entries: Packed<M>[] = [];
  const oversized: Packed<M>[] = [];
  let bytes = 0;
  for (const [key, delivery] of heads(backlog)) {
    if (entries.length === limits.entries) break;
    if (!mayStart(delivery.partition)) continue;
    const packed = { key, delivery, message: toMessage(delivery) };
    if (packed.message.bytes > limits.bytes) {
      oversized.push(packed);
      continue;
    }
    if (bytes + packed.message.bytes > limits.bytes) break;
    bytes += packed.message.bytes;
    entries.push(packed);
  }
  return { entries, oversized };
}
