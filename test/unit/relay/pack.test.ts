import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { depart } from '../../../shared/outbox/relay/backlog.ts';
import type { Delivery } from '../../../shared/outbox/relay/delivery.ts';
import { packBatch } from '../../../shared/outbox/relay/pack.ts';
import { backlogOf, delivery } from '../../support/delivery.ts';

const LIMITS = { entries: 10, bytes: 1_000, timeoutMs: 5_000 };
/** `data` is the size, as text. */
const bytesOf = (of: Delivery): { bytes: number } => ({ bytes: Number(of.event.data) });
/** Small ones, so that ten come together, and others around the limit. */
const sizes = fc.array(fc.oneof(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 1_200 })), {
  maxLength: 40,
});
const heads = (of: readonly number[]): Delivery[] =>
  of.map((size, index) => delivery({ aggregate: `a${index}`, sequence: 1, data: String(size) }));
const packed = (of: readonly number[]) => packBatch(backlogOf(heads(of)), LIMITS, bytesOf);

describe('packing a call', () => {
  it('keeps within ten entries and the bytes of one call, in order, and leaves nothing out that fits', () => {
    fc.assert(
      fc.property(sizes, (all) => {
        const window = heads(all);
        const { entries, oversized } = packBatch(backlogOf(window), LIMITS, bytesOf);
        const sum = entries.reduce((bytes, entry) => bytes + entry.message.bytes, 0);
        expect(entries.length).toBeLessThanOrEqual(10);
        expect(sum).toBeLessThanOrEqual(1_000);
        for (const entry of oversized) expect(entry.message.bytes).toBeGreaterThan(1_000);

        // What can be sent goes as a prefix: the oldest aggregates first.
        const sendable = window.filter((head) => bytesOf(head).bytes <= 1_000);
        expect(entries.map((entry) => entry.delivery)).toEqual(sendable.slice(0, entries.length));
        const next = sendable[entries.length];
        if (next !== undefined && entries.length < 10) expect(sum + bytesOf(next).bytes).toBeGreaterThan(1_000);
      }),
    );
  });

  it('case 16: splits bodies that are each under the limit when their sum is over it, and all go', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 1_000 }), { minLength: 1, maxLength: 40 }), (all) => {
        const backlog = backlogOf(heads(all));
        const sent: Delivery[] = [];
        while (sent.length < all.length) {
          const { entries } = packBatch(backlog, LIMITS, bytesOf);
          expect(entries.length).toBeGreaterThan(0);
          depart(
            backlog,
            entries.map((entry) => entry.key),
          );
          sent.push(...entries.map((entry) => entry.delivery));
        }
        expect(sent).toEqual(heads(all));
      }),
    );
    expect(packed([600, 600]).entries).toHaveLength(1);
    expect(packed([600, 400]).entries).toHaveLength(2);
  });

  it('like case 16: takes ten small ones, a message of exactly the limit alone, and none above it', () => {
    expect(packed([1_000, 1])).toMatchObject({ entries: [{ message: { bytes: 1_000 } }], oversized: [] });
    expect(packed(Array.from({ length: 12 }, () => 1)).entries).toHaveLength(10);
    expect(packed([1_001, 1])).toMatchObject({
      entries: [{ message: { bytes: 1 } }],
      oversized: [{ message: { bytes: 1_001 } }],
    });
  });

  it('like case 8: takes one of each aggregate, never two', () => {
    const window = [1, 2, 3].flatMap((sequence) =>
      ['x', 'y'].map((aggregate) => delivery({ aggregate, sequence, data: '1' })),
    );
    const { entries } = packBatch(backlogOf(window), LIMITS, bytesOf);
    expect(entries.map(({ delivery: { event } }) => event.id)).toEqual(['x#1', 'y#1']);
  });

  it('takes several of one aggregate where the destination keeps no order', () => {
    const window = [1, 2, 3].map((sequence) => delivery({ aggregate: 'x', sequence, data: '1' }));
    expect(packBatch(backlogOf(window, false), LIMITS, bytesOf).entries).toHaveLength(3);
  });

  it('gives nothing when no head is ready', () => {
    expect(packed([])).toEqual({ entries: [], oversized: [] });
  });
});
