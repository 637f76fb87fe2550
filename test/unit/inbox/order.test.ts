import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decide } from '../../../shared/inbox/order.ts';

const EPOCH = 2n ** 40n;

/** The same rule in other words: epochs and places as two numbers, no shifts. */
function modelDecides(position: bigint | null, sequence: bigint, start: 'beginning' | 'first-seen'): string {
  const split = (value: bigint) => ({ epoch: value / EPOCH, place: value % EPOCH });
  const next = split(sequence);
  if (position === null) return start === 'first-seen' || next.place === 1n ? 'apply' : 'gap';
  const last = split(position);
  if (next.epoch < last.epoch) return 'late';
  if (next.epoch > last.epoch) return next.place === 1n ? 'apply' : 'gap';
  if (next.place <= last.place) return 'late';
  return next.place === last.place + 1n ? 'apply' : 'gap';
}

const anySequence = fc
  .tuple(
    fc.bigInt({ min: 0n, max: 3n }),
    fc.oneof(fc.bigInt({ min: 1n, max: 6n }), fc.bigInt({ min: 1n, max: EPOCH - 1n })),
  )
  .map(([epoch, place]) => epoch * EPOCH + place);
const anyPosition = fc.option(anySequence, { nil: null });
const anyStart = fc.constantFrom('beginning' as const, 'first-seen' as const);

describe('decide', () => {
  it('agrees with a model of epochs and places', () => {
    fc.assert(
      fc.property(anyPosition, anySequence, anyStart, (position, sequence, start) => {
        expect(decide(position, sequence, 'strict', start).kind).toBe(modelDecides(position, sequence, start));
      }),
      { numRuns: 5000 },
    );
  });

  it('applies a stream in order, whatever the order and number of arrivals, when what it refuses comes again', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.infiniteStream(fc.nat(7)), (length, picks) => {
        let position: bigint | null = null;
        const applied: bigint[] = [];
        for (let round = 0; round < 400 && applied.length < length; round += 1) {
          const sequence = BigInt((picks.next().value % length) + 1);
          if (decide(position, sequence, 'strict', 'beginning').kind !== 'apply') continue;
          applied.push(sequence);
          position = sequence;
        }
        expect(applied).toEqual(Array.from({ length: applied.length }, (_, index) => BigInt(index + 1)));
      }),
    );
  });

  it('never lets a position go back', () => {
    fc.assert(
      fc.property(anySequence, anySequence, anyStart, (position, sequence, start) => {
        if (decide(position, sequence, 'strict', start).kind === 'apply') expect(sequence > position).toBe(true);
      }),
    );
  });

  it('names the sequence that it would have applied', () => {
    fc.assert(
      fc.property(anyPosition, anySequence, (position, sequence) => {
        const decision = decide(position, sequence, 'strict', 'beginning');
        if (decision.kind === 'gap') {
          expect(decide(position, decision.expected, 'strict', 'beginning').kind).toBe('apply');
          expect(decision.expected < sequence).toBe(true);
        }
      }),
    );
    expect(decide(4n, 7n, 'strict', 'beginning')).toEqual({ kind: 'gap', expected: 5n });
    expect(decide(4n, 4n, 'strict', 'beginning')).toEqual({ kind: 'late', expected: 5n });
    expect(decide(4n, EPOCH + 3n, 'strict', 'beginning')).toEqual({ kind: 'gap', expected: EPOCH + 1n });
  });

  it('does not take the multiple of 2^40 itself, which no event carries', () => {
    expect(decide(EPOCH - 1n, EPOCH, 'strict', 'beginning').kind).toBe('gap');
  });

  it('applies in mode latest what is newer than the position, whatever is missing between, and drops the rest', () => {
    fc.assert(
      fc.property(anyPosition, anySequence, anyStart, (position, sequence, start) => {
        const newer = sequence > (position ?? 0n);
        expect(decide(position, sequence, 'latest', start).kind).toBe(newer ? 'apply' : 'older');
      }),
    );
  });

  it('applies everything in mode any', () => {
    fc.assert(
      fc.property(anyPosition, anySequence, anyStart, (position, sequence, start) => {
        expect(decide(position, sequence, 'any', start)).toEqual({ kind: 'apply' });
      }),
    );
  });
});
