/**
 * Which event of an aggregate a consumer may apply next: pure arithmetic, no database.
 *
 * A sequence is a 64-bit number: the epoch in its high bits, the place within the epoch in the low 40. A stream counts
 * 1, 2, 3 … in epoch 0. After a restore the outbox raises every stream to the next multiple of 2^40, so the first event
 * of epoch e carries e × 2^40 + 1, and whatever the lost timeline may have used stays below it.
 */
import type { Mode, StartingPoint } from '../events/index.ts';

/** What to do with an event that was never processed. `expected` is the sequence that would have been applied. */
export type Decision =
  | { readonly kind: 'apply' }
  /** Mode `latest`: a newer one was applied. */
  | { readonly kind: 'older' }
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

/** Whether a strict consumer at `position` may apply `sequence`: the next of its epoch, or the first of a higher one. */
export function follows(position: bigint, sequence: bigint): boolean {
  if (isFirst(sequence)) return epochOf(sequence) > epochOf(position) || sequence === position + 1n;
  // The multiple of 2^40 itself is never an event's.
  return sequence === position + 1n && sequence !== epochOf(sequence) << EPOCH_BITS;
}

/**
 * Decides about an event without a dedupe row, as `inbox.take` does in the database under the position's lock.
 *
 * @param position the last sequence applied for this aggregate, 0 or `null` when there is none yet
 */
export function decide(position: bigint | null, sequence: bigint, mode: Mode, start: StartingPoint): Decision {
  if (mode === 'any') return APPLY;
  const last = position ?? 0n;
  if (mode === 'latest') return sequence > last ? APPLY : { kind: 'older' };
  const expected = epochOf(sequence) > epochOf(last) ? firstOf(epochOf(sequence)) : last + 1n;
  if (sequence <= last) return { kind: 'late', expected };
  if (last === 0n && start === 'first-seen') return APPLY;
  return follows(last, sequence) ? APPLY : { kind: 'gap', expected };
}
