import type { SQSEvent } from 'aws-lambda';
import { describe, expect, it } from 'vitest';
import { deliveries } from '../../chaos/deliveries.ts';
import { seeded, shuffled } from '../../chaos/random.ts';
import { fifoRecord, standardRecord } from '../../support/sqs-batch.ts';

const body = JSON.stringify({ data: {} });

/** A handler that remembers what it was given, and returns the messages in `returns`. */
function recorder(returns: readonly string[] = []) {
  const given: string[][] = [];
  return {
    given,
    handler: async ({ Records }: SQSEvent) => {
      given.push(Records.map(({ messageId }) => messageId));
      const failed = Records.filter(({ messageId }) => returns.includes(messageId));
      return { batchItemFailures: failed.map(({ messageId }) => ({ itemIdentifier: messageId })) };
    },
  };
}

const fifo = ['1', '2', '3'].map((id) => fifoRecord('a', body, id));
const standard = ['1', '2', '3', '4', '5', '6'].map((id) => standardRecord(body, undefined, id));
const ids = (records: readonly { readonly messageId: string }[]) => records.map(({ messageId }) => messageId);

describe('deliveries of a batch', () => {
  it('come one to three times, each number now and then', async () => {
    const times = new Set<number>();
    for (let seed = 0; seed < 30; seed += 1) {
      const { given, handler } = recorder();
      await deliveries({ handler, fifo: true, random: seeded(seed, 'x'), share: 1, injected: () => {} }).deliver(fifo);
      times.add(given.length);
    }
    expect(times).toEqual(new Set([1, 2, 3]));
  });

  it('come once where no batch has a share in it', async () => {
    const { given, handler } = recorder();
    await deliveries({ handler, fifo: true, random: seeded(1, 'x'), share: 0, injected: () => {} }).deliver(fifo);
    expect(given).toEqual([['1', '2', '3']]);
  });

  it('keep the order of a FIFO queue, and no order of a standard queue', async () => {
    const ordered = recorder();
    const unordered = recorder();
    for (let seed = 0; seed < 5; seed += 1) {
      const common = { random: seeded(seed, 'x'), share: 1, injected: () => {} };
      await deliveries({ ...common, handler: ordered.handler, fifo: true }).deliver(fifo);
      await deliveries({ ...common, handler: unordered.handler, fifo: false }).deliver(standard);
    }
    expect(ordered.given.every((batch) => batch.join('') === '123')).toBe(true);
    expect(unordered.given.some((batch) => batch.join('') !== '123456')).toBe(true);
    expect(unordered.given.every((batch) => batch.toSorted().join('') === '123456')).toBe(true);
  });

  it('tell what was acknowledged by any of them', async () => {
    const { handler } = recorder(['2']);
    const { deliver } = deliveries({ handler, fifo: true, random: seeded(1, 'x'), share: 1, injected: () => {} });
    expect(await deliver(fifo)).toEqual(new Set(['1', '3']));
  });

  it('come again, late, when others have been applied', async () => {
    const { given, handler } = recorder();
    const counted = new Map<string, number>();
    const { deliver } = deliveries({
      handler,
      fifo: true,
      random: seeded(3, 'x'),
      share: 1,
      injected: (kind, times) => void counted.set(kind, (counted.get(kind) ?? 0) + times),
    });
    for (let batch = 0; batch < 200; batch += 1) await deliver([fifoRecord('a', body, String(batch))]);
    const order = given.flat().map(Number);
    expect(order.some((id, index) => id < Math.max(...order.slice(0, index)))).toBe(true);
    expect(counted.get('message delivered again, late')).toBeGreaterThan(0);
  });
});

describe('a shuffle', () => {
  it('has each item once', () => {
    expect(shuffled(seeded(1, 'x'), ids(standard)).toSorted()).toEqual(ids(standard));
  });
});
