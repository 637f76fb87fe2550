import { randomBytes } from 'node:crypto';
import { openValue, SealingError, sealValue, subjectKey } from '../../shared/sealing/index.ts';
import { MAX_JSON_BYTES } from '../../shared/sealing/plaintext.ts';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import type { Figure } from '../harness/figure.ts';

const PLACE = { in: 'row', store: 'bench', table: 'customer', primaryKey: '1', column: 'note' } as const;
/** The best of so many, because a busy machine makes any call slow now and then. */
const TRIES = 5;

/** Texts that cost most: as long as a value can be, and longer, changed in each part; and long texts that only begin as one. */
function hostileTexts(longest: string, changes: number): string[] {
  const dot = longest.lastIndexOf('.') + 1;
  const flip = (at: number): string =>
    `${longest.slice(0, at)}${longest[at] === 'A' ? 'B' : 'A'}${longest.slice(at + 1)}`;
  const flipped = Array.from({ length: changes }, (_, n) =>
    flip(dot + Math.floor((n * (longest.length - dot)) / changes)),
  );
  const parts = ['.', 'a.', '1.', 'sealed.', 'sealed.1.', '-', '_', 'A', '=', '\u0000', 'é', '\ud83d'];
  const long = parts.map((part) =>
    `sealed.1.${part.repeat(Math.ceil(longest.length / part.length))}`.slice(0, longest.length),
  );
  const cut = [1, 2, 3, 4, 64, 100_000].map((less) => longest.slice(0, -less));
  return [
    ...flipped,
    ...long,
    ...cut,
    `${longest}=`,
    `${longest}${longest}`,
    `${longest}${'A'.repeat(50_000_000)}`,
    'x'.repeat(50_000_000),
  ];
}

async function run(bench: Bench): Promise<Figure[]> {
  const key = subjectKey(
    { class: 'contact', keyId: randomBytes(16).toString('base64url'), version: 1 },
    randomBytes(32),
  );
  const longest = sealValue('x'.repeat(MAX_JSON_BYTES - 2), key, PLACE);
  let slowest = 0;
  for (const text of hostileTexts(longest, sized(bench, 200))) {
    let best = Number.POSITIVE_INFINITY;
    for (let n = 0; n < TRIES; n += 1) {
      const start = performance.now();
      try {
        openValue(text, key, PLACE);
        throw new Error('a hostile text opened');
      } catch (error) {
        if (!(error instanceof SealingError)) throw error;
      }
      best = Math.min(best, performance.now() - start);
    }
    slowest = Math.max(slowest, best);
  }
  return [
    {
      name: 'slowest refusal of a hostile text (each the best of 5)',
      value: slowest,
      unit: 'ms',
      goal: { atMost: 10 },
    },
  ];
}

export const hostile: Benchmark = {
  name: 'hostile',
  what: 'texts that are as long as a sealed value can be, and longer, changed so that none opens',
  minutes: 0.2,
  run,
};
