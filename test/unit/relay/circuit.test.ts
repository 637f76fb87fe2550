import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { closedCircuit, failed, isProbing, passed, waitFor } from '../../../shared/outbox/relay/circuit.ts';

const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });

/** The waits of an outage in which every try fails at the moment it is allowed. */
function waitsOf(tries: number, value: number): number[] {
  const circuit = closedCircuit();
  let now = 0;
  return Array.from({ length: tries }, () => {
    failed(circuit, now, () => value);
    const wait = waitFor(circuit, now);
    now += wait;
    return wait;
  });
}

describe('the circuit of a destination', () => {
  it('is closed at first', () => {
    const circuit = closedCircuit();
    expect(waitFor(circuit, 0)).toBe(0);
    expect(isProbing(circuit)).toBe(false);
  });

  it('case 11: never waits less than a quarter of a second in an outage, and never more than 30', () => {
    fc.assert(
      fc.property(random, (value) => {
        for (const wait of waitsOf(40, value)) {
          expect(wait).toBeGreaterThanOrEqual(250);
          expect(wait).toBeLessThanOrEqual(30_000);
        }
      }),
    );
  });

  it('case 11: asks a destination that is away for half an hour less than 150 times', () => {
    // The luckiest dice: each wait is the shortest possible.
    const waits = waitsOf(500, 0);
    let time = 0;
    const tries = waits.findIndex((wait) => (time += wait) > 30 * 60_000);
    expect(tries).toBeLessThan(150);
  });

  it('waits longer with each failure in a row, up to the cap', () => {
    const shortest = waitsOf(10, 0);
    expect(shortest.slice(0, 4)).toEqual([250, 500, 1_000, 2_000]);
    expect(shortest.at(-1)).toBe(15_000);
    expect(waitsOf(10, 0.999_999).at(-1)).toBe(30_000);
  });

  it('counts the failures of several calls in flight as one', () => {
    const circuit = closedCircuit();
    failed(circuit, 0, () => 0);
    const until = circuit.openUntil;
    for (let call = 0; call < 8; call += 1) failed(circuit, 1, () => 0.9);
    expect(circuit).toMatchObject({ failures: 1, openUntil: until });
  });

  it('probes when the wait is over, and starts afresh as soon as a message passes', () => {
    const circuit = closedCircuit();
    failed(circuit, 0, () => 0);
    failed(circuit, 250, () => 0);
    expect(waitFor(circuit, 749)).toBe(1);
    expect(waitFor(circuit, 750)).toBe(0);
    expect(isProbing(circuit)).toBe(true);
    passed(circuit, 750);
    expect(isProbing(circuit)).toBe(false);
    failed(circuit, 751, () => 0);
    expect(waitFor(circuit, 751)).toBe(250);
  });
});
