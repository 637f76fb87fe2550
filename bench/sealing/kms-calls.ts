import { createKeyring, type KeyringClock, type NeededKey } from '../../shared/sealing/index.ts';
import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import type { Figure } from '../harness/figure.ts';
import { countedVault, type PersonBench, person, personBench } from './person-events.ts';

const CLASSES = ['contact', 'tax'];
const STEP_SECONDS = 10;
const PARALLEL = 100;

const keysOf = (n: number): NeededKey[] => CLASSES.map((className) => ({ class: className, subject: person(n) }));

async function measure(bench: Bench, { pool, kms }: PersonBench): Promise<Figure[]> {
  const all = sized(bench, 20_000);
  let passed = 0;
  const clock: KeyringClock = { monotonic: () => passed, wall: () => passed };
  const processOf = (): ReturnType<typeof createKeyring> =>
    createKeyring({ name: 'bench', vault: countedVault(pool), kms, clock });
  // The branch keys exist; the process starts without any.
  await processOf().keysToSeal(keysOf(0));

  const keyring = processOf();
  kms.calls.length = 0;
  for (let second = 0; second < 3_600; second += STEP_SECONDS) {
    passed = second * 1000;
    const persons = Array.from({ length: 50 }, () => Math.floor(Math.random() * all));
    await keyring.keysToSeal([...new Set(persons)].flatMap(keysOf));
  }
  const inAnHour = kms.calls.length / CLASSES.length;

  kms.calls.length = 0;
  const cold = processOf();
  await Promise.all(Array.from({ length: PARALLEL }, (_, n) => cold.keysToSeal(keysOf(n % all))));
  return [
    {
      name: 'calls of KMS in an hour of one process, per class and live version',
      value: inAnHour,
      unit: 'calls',
      goal: { atMost: 6 },
    },
    {
      name: `calls of KMS for ${PARALLEL} requests at once to a cold process, per class and live version`,
      value: kms.calls.length / CLASSES.length,
      unit: 'calls',
      goal: { atMost: 1 },
    },
  ];
}

export const kmsCalls: Benchmark = {
  name: 'kms',
  what: 'how often KMS is asked: in an hour on a clock that is moved, and by 100 requests at once',
  minutes: 0.5,
  async run(bench) {
    const made = await personBench(bench.server);
    try {
      return await measure(bench, made);
    } finally {
      await made.end();
    }
  },
};
