import { describe, expect, it } from 'vitest';
import { noFloors, raiseFloor } from '../../../shared/outbox/relay/floors.ts';

describe('the floors of aggregates', () => {
  it('name an aggregate once it has gone a hundred sequences, and where it is', () => {
    const floors = noFloors();
    for (const sequence of [7n, 50n, 106n]) raiseFloor(floors, 'a', sequence);
    expect([...floors.far]).toEqual([]);
    raiseFloor(floors, 'a', 107n);
    raiseFloor(floors, 'a', 300n);
    expect([...floors.far]).toEqual([['a', 300n]]);
  });

  it('stay few: those that are met go on being named, the others are forgotten', () => {
    const floors = noFloors();
    for (let n = 0; n < 6_000; n += 1) {
      const key = `k${n}`;
      raiseFloor(floors, key, 1n);
      raiseFloor(floors, key, 500n);
      raiseFloor(floors, 'hot', BigInt(n));
    }
    expect(floors.first.size).toBe(5_000);
    expect(floors.far.size).toBe(64);
    expect(floors.far.get('hot')).toBe(5_999n);
  });
});
