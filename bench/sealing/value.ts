import { randomBytes } from 'node:crypto';
import { openValue, sealValue, subjectKey } from '../../shared/sealing/index.ts';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { type Figure, quantile } from '../harness/figure.ts';
import { primitives } from './primitives.ts';

const FIELD = 'Ada Lovelace, 12 St James’s Square, SW1Y';
const PLACE = {
  in: 'event',
  eventType: 'invoice.issued',
  aggregateType: 'invoice',
  aggregateId: '6f1c7a52-8d0b-4c5e-9d6a-0b1f3c2d4e5f',
  eventId: '01890a5d-ac96-774b-bcce-b302099a8057',
  pointer: '/customer/address',
} as const;

/** Microseconds of CPU that a call takes, on average: what a busy machine hardly changes. */
function cpuOf(call: () => unknown): number {
  const CALLS = 20_000;
  const before = process.cpuUsage();
  for (let n = 0; n < CALLS; n += 1) call();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / CALLS;
}

/** Microseconds of each call. All take turns, so that what a busy machine does is done to all. */
function measured<Name extends string>(calls: Record<Name, () => unknown>, count: number): Record<Name, number[]> {
  const names = Object.keys(calls) as Name[];
  const times = Object.fromEntries(names.map((name) => [name, [] as number[]])) as Record<Name, number[]>;
  for (let n = -20_000; n < count; n += 1) {
    for (const name of names) {
      const start = performance.now();
      calls[name]();
      if (n >= 0) times[name].push((performance.now() - start) * 1000);
    }
  }
  return times;
}

async function run(bench: Bench): Promise<Figure[]> {
  const name = { class: 'contact', keyId: randomBytes(16).toString('base64url'), version: 1 };
  const key = subjectKey(name, randomBytes(32));
  const crypto = primitives();
  const sealed = sealValue(FIELD, key, PLACE);
  const calls = {
    seal: () => sealValue(FIELD, key, PLACE),
    open: () => openValue(sealed, key, PLACE),
    'crypto seal': crypto.seal,
    'crypto open': crypto.open,
  };
  if (openValue(calls.seal(), key, PLACE) !== FIELD) throw new Error('a value did not come back');
  const times = measured(calls, sized(bench, 200_000));
  const longest = { class: 'abcdefghijklmnop', keyId: name.keyId, version: 2_147_483_647 };
  return [
    ...(['seal', 'open'] as const).flatMap((what): Figure[] => {
      const of = times[what];
      const alone = times[`crypto ${what}`];
      return [
        {
          name: `${what} a field of 40 characters, p50`,
          value: quantile(of, 0.5),
          unit: 'µs',
          goal: { atMost: 20 },
        },
        { name: '  node:crypto alone, p50', value: quantile(alone, 0.5), unit: 'µs' },
        { name: '  p99', value: quantile(of, 0.99), unit: 'µs', goal: { atMost: 60 } },
        { name: '  node:crypto alone, p99', value: quantile(alone, 0.99), unit: 'µs' },
        { name: '  CPU, on average', value: cpuOf(calls[what]), unit: 'µs' },
        { name: '  node:crypto alone, CPU', value: cpuOf(calls[`crypto ${what}`]), unit: 'µs' },
      ];
    }),
    {
      name: 'sealed value of 20 ASCII characters, longest class and version',
      value: sealValue('x'.repeat(20), subjectKey(longest, randomBytes(32)), PLACE).length,
      unit: 'bytes',
      goal: { atMost: 150 },
    },
  ];
}

export const value: Benchmark = {
  name: 'value',
  what: 'one field sealed and opened with a key in memory, and how long it gets',
  minutes: 0.5,
  run,
};
