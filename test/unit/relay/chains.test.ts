import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { abandon, advance, chainsOf, depart, heads, isEmpty } from '../../../shared/outbox/relay/chains.ts';
import { delivery } from '../../support/delivery.ts';

type Step = { readonly act: 'send' | 'acknowledge' | 'refuse'; readonly pick: number };

const windows = fc.uniqueArray(
  fc.record({ aggregate: fc.constantFrom('x', 'y', 'z'), sequence: fc.integer({ min: 1, max: 9 }) }),
  { selector: ({ aggregate, sequence }) => `${aggregate}#${sequence}`, maxLength: 20 },
);
const steps = fc.array(fc.record<Step>({ act: fc.constantFrom('send', 'acknowledge', 'refuse'), pick: fc.nat(100) }), {
  maxLength: 60,
});

/** What an aggregate should look like: its sequences that are not yet acknowledged, and whether the first is under way. */
interface Model {
  left: number[];
  flying: boolean;
}

describe('chains', () => {
  it('offer, whatever happens, exactly the lowest unacknowledged of each aggregate that has none in flight', () => {
    fc.assert(
      fc.property(windows, steps, (window, acts) => {
        const chains = chainsOf(window.map(delivery), true);
        const model = new Map<string, Model>();
        for (const { aggregate, sequence } of window) {
          const of = model.get(`key of ${aggregate}`) ?? { left: [], flying: false };
          of.left = [...of.left, sequence].toSorted((a, b) => a - b);
          model.set(`key of ${aggregate}`, of);
        }
        for (const { act, pick } of acts) {
          const choices = [...model].filter(([, of]) => of.left.length > 0 && of.flying === (act !== 'send'));
          const [key, of] = choices[pick % choices.length] ?? [];
          if (key !== undefined && of !== undefined) {
            if (act === 'send') depart(chains, [key]);
            if (act === 'acknowledge') advance(chains, key);
            if (act === 'refuse') abandon(chains, key);
            of.flying = act === 'send';
            if (act === 'acknowledge') of.left.shift();
            if (act === 'refuse') of.left = [];
          }
          const offered = [...heads(chains)].map(([offer, head]) => `${offer}#${head.sequence}`);
          const expected = [...model]
            .filter(([, { left, flying }]) => left.length > 0 && !flying)
            .map(([waiting, { left }]) => `${waiting}#${left[0]}`);
          expect(new Set(offered)).toEqual(new Set(expected));
          expect(offered).toHaveLength(expected.length);
          expect(isEmpty(chains)).toBe([...model.values()].every(({ left }) => left.length === 0));
        }
      }),
    );
  });

  it('case 6: sort by sequence whatever order the rows came in, beyond 2^53 too', () => {
    const epoch = 2 ** 53;
    const rows = [3, 1, 2].map((sequence) => delivery({ aggregate: 'x', sequence }));
    const late = { ...delivery({ aggregate: 'x', sequence: epoch }), sequence: 2n ** 53n + 1n };
    const last = { ...delivery({ aggregate: 'x', sequence: epoch }), sequence: 2n ** 53n + 2n };
    const chains = chainsOf([last, ...rows, late], true);
    const order: bigint[] = [];
    while (!isEmpty(chains)) {
      const [key, head] = [...heads(chains)][0]!;
      order.push(head.sequence);
      depart(chains, [key]);
      advance(chains, key);
    }
    expect(order).toEqual([1n, 2n, 3n, 2n ** 53n + 1n, 2n ** 53n + 2n]);
  });

  it('offer everything at once where the destination keeps no order', () => {
    fc.assert(
      fc.property(windows, (window) => {
        const chains = chainsOf(window.map(delivery), false);
        expect([...heads(chains)].map(([, head]) => head)).toEqual(window.map(delivery));
      }),
    );
  });

  it('let a refused head of an unordered destination take no other with it', () => {
    const chains = chainsOf(
      [1, 2].map((sequence) => delivery({ aggregate: 'x', sequence })),
      false,
    );
    const [key] = [...heads(chains)][0]!;
    depart(chains, [key]);
    abandon(chains, key);
    expect([...heads(chains)].map(([, head]) => head.sequence)).toEqual([2n]);
  });

  it('case 5: offer the heads of other aggregates while one waits with its followers', () => {
    const chains = chainsOf(
      [1, 2].flatMap((sequence) => ['x', 'y'].map((aggregate) => delivery({ aggregate, sequence }))),
      true,
    );
    depart(chains, ['key of x', 'key of y']);
    abandon(chains, 'key of x');
    advance(chains, 'key of y');
    expect([...heads(chains)].map(([, head]) => head.event.id)).toEqual(['y#2']);
  });
});
