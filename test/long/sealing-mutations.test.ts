import { expect, it } from 'vitest';
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
