/**
 * Which event of an aggregate a consumer may apply next: pure arithmetic, no database.
 *
 * A sequence is a 64-bit number: the epoch in its high bits, the place within the epoch in the low 40. A stream counts
 * 1, 2, 3 … in epoch 0. After a restore the outbox raises every stream to the next multiple of 2^40, so the first event
 * of epoch e carries e × 2^40 + 1, and whatever the lost timeline may have used stays below it.
 */

/**
 * How a consumer treats order.
 * - `any`: each event once, in whatever order it arrives.
 * - `strict`: each event once, and per aggregate only the next sequence or the first of a higher epoch.
 */
export type Mode = 'any' | 'strict';

/**
 * Where a strict consumer starts on an aggregate that it has never seen.
 * - `beginning`: with the first event of an epoch, nothing else.
 * - `first-seen`: with whatever arrives first. For a consumer that joins running streams.
 */
export type StartingPoint = 'beginning' | 'first-seen';

/** What to do with an event that was never processed. `expected` is the sequence that would have been applied. */
export type Decision =
  | { readonly kind: 'apply' }
  | { readonly kind: 'gap'; readonly expected: bigint }
  | { readonly kind: 'late'; readonly expected: bigint };

const EPOCH_BITS = 40n;
const APPLY: Decision = { kind: 'apply' };

const epochOf = (sequence: bigint): bigint => sequence >> EPOCH_BITS;
const firstOf = (epoch: bigint): bigint => (epoch << EPOCH_BITS) + 1n;

/** Whether the sequence is the first of its epoch. */
function isFirst(sequence: bigint): boolean {
  return sequence === firstOf(epochOf(sequence));
}

/**
 * The lowest position that a strict consumer may stand at to apply `sequence`; the highest is always `sequence - 1`.
 * The first of an epoch follows any position of a lower one, every other event only its direct predecessor.
 *
 * The database's conditional upsert takes this number as a parameter, so the rule exists once.
 */
export function lowestPositionBefore(sequence: bigint): bigint {
  if (isFirst(sequence)) return 0n;
  // The multiple of 2^40 itself is never an event's: no position leads to it.
  if (sequence === epochOf(sequence) << EPOCH_BITS) return sequence;
  return sequence - 1n;
}

/**
 * Decides about an event without a dedupe row.
 *
 * @param position the last sequence applied for this aggregate, `null` when there is none yet
 */
export function decide(position: bigint | null, sequence: bigint, mode: Mode, start: StartingPoint): Decision {
  if (mode === 'any') return APPLY;
  if (position === null) {
    if (start === 'first-seen' || isFirst(sequence)) return APPLY;
    return { kind: 'gap', expected: firstOf(epochOf(sequence)) };
  }
  const higherEpoch = epochOf(sequence) > epochOf(position);
  const expected = higherEpoch ? firstOf(epochOf(sequence)) : position + 1n;
  if (sequence <= position) return { kind: 'late', expected };
  return lowestPositionBefore(sequence) <= position ? APPLY : { kind: 'gap', expected };
}
