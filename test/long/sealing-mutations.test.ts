import { expect, it } from 'vitest';
import { runMoves } from '../support/sealing-moves.ts';
import { runMutations } from '../support/sealing-mutations.ts';

it('a hundred thousand changed values: none opens, and each is refused with an error of the closed set', () => {
  const { refused, unchanged } = runMutations(2, 100_000);
  expect(unchanged).toBeLessThan(10_000);
  expect(Object.keys(refused).toSorted()).toEqual([
    'SEALING_KEY_UNKNOWN',
    'SEALING_MALFORMED',
    'SEALING_TAMPERED',
    'not sealed',
  ]);
});

it('a hundred thousand moved values: none opens', () => {
  const { unmoved = 0, ...outcomes } = runMoves(2, 100_000);
  expect(unmoved).toBeLessThan(10_000);
  expect(Object.keys(outcomes).toSorted()).toEqual([
    'SEALING_KEY_UNKNOWN',
    'SEALING_MALFORMED',
    'SEALING_TAMPERED',
    'closed',
  ]);
});
