import { randomBytes } from 'node:crypto';
import { openValue, sealValue, subjectKey } from '../../shared/sealing/index.ts';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { type Figure, quantile } from '../harness/figure.ts';

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

async function run(bench: Bench): Promise<Figure[]> {
  const name = { class: 'contact', keyId: randomBytes(16).toString('base64url'), version: 1 };
  const key = subjectKey(name, randomBytes(32));
  const times = { seal: [] as number[], open: [] as number[] };
  const once = (keep: boolean): void => {
    const start = performance.now();
    const sealed = sealValue(FIELD, key, PLACE);
    const between = performance.now();
    const opened = openValue(sealed, key, PLACE);
    const end = performance.now();
    if (opened !== FIELD) throw new Error('a value did not come back');
    if (!keep) return;
    times.seal.push((between - start) * 1000);
    times.open.push((end - between) * 1000);
  };
  for (let n = 0; n < 20_000; n += 1) once(false);
  for (let n = 0; n < sized(bench, 200_000); n += 1) once(true);
  const cpu = {
    seal: cpuOf(() => sealValue(FIELD, key, PLACE)),
    open: ((sealed) => cpuOf(() => openValue(sealed, key, PLACE)))(sealValue(FIELD, key, PLACE)),
  };
  const longest = { class: 'abcdefghijklmnop', keyId: name.keyId, version: 2_147_483_647 };
  return [
    ...(['seal', 'open'] as const).flatMap((what): Figure[] => [
      {
        name: `${what} a field of 40 characters, p50`,
        value: quantile(times[what], 0.5),
        unit: 'µs',
        goal: { atMost: 20 },
      },
      { name: '  p99', value: quantile(times[what], 0.99), unit: 'µs', goal: { atMost: 60 } },
      { name: '  CPU, on average', value: cpu[what], unit: 'µs' },
    ]),
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
