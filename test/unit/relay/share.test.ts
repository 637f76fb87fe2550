import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type LiveRelay, PARTITIONS, shareOf } from '../../../shared/outbox/relay/share.ts';

const liveRelays = fc.uniqueArray(
  fc.record({
    owner: fc.uuid(),
    slot: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l'),
    startedAt: fc.constantFrom(
      '2030-01-01T00:00:00.000001',
      '2030-01-01T00:00:00.000002',
      '2030-01-01T00:01:00.000000',
    ),
  }),
  { selector: (relay) => relay.owner, minLength: 1, maxLength: 30 },
);

const sharesOf = (live: readonly LiveRelay[]): number[] => live.map((relay) => shareOf(relay.owner, live));

describe('the share of a relay', () => {
  it('divides all 64 partitions, whoever lives', () => {
    fc.assert(
      fc.property(liveRelays, (live) => {
        expect(sharesOf(live).reduce((sum, share) => sum + share)).toBe(PARTITIONS);
      }),
    );
  });

  it('gives one relay of each slot a part and the older ones of it none', () => {
    fc.assert(
      fc.property(liveRelays, (live) => {
        for (const slot of new Set(live.map((relay) => relay.slot))) {
          const ofSlot = live.filter((relay) => relay.slot === slot);
          const holders = ofSlot.filter((relay) => shareOf(relay.owner, live) > 0);
          expect(holders).toHaveLength(1);
          for (const relay of ofSlot) expect(relay.startedAt <= holders[0]!.startedAt).toBe(true);
        }
      }),
    );
  });

  it('differs between holders by one at most', () => {
    fc.assert(
      fc.property(liveRelays, (live) => {
        const held = sharesOf(live).filter((share) => share > 0);
        expect(Math.max(...held) - Math.min(...held)).toBeLessThanOrEqual(1);
      }),
    );
  });

  it('is the same in whatever order the relays are read', () => {
    fc.assert(
      fc.property(liveRelays, (live) => {
        const reversed = live.toReversed();
        for (const { owner } of live) expect(shareOf(owner, reversed)).toBe(shareOf(owner, live));
      }),
    );
  });

  it('is nothing for a relay that is not among those that live', () => {
    expect(shareOf('gone', [{ owner: 'other', slot: 'a', startedAt: '2030' }])).toBe(0);
    expect(shareOf('gone', [])).toBe(0);
  });

  it('hands over to the next run of the slot, and to no run of another slot', () => {
    const older = { owner: 'older', slot: 'minute', startedAt: '2030-01-01T00:00:00.000000' };
    const other = { owner: 'other', slot: 'spare', startedAt: '2030-01-01T00:00:30.000000' };
    const younger = { owner: 'younger', slot: 'minute', startedAt: '2030-01-01T00:01:00.000000' };
    expect(shareOf('older', [older])).toBe(64);
    expect(shareOf('older', [older, other])).toBe(32);
    expect(sharesOf([older, other, younger])).toEqual([0, 32, 32]);
  });
});
