import { type Bench, type Benchmark, sized } from '../harness/benchmark.ts';
import { type BatchesResult, startConsumer, type Variant, VARIANTS } from '../harness/consumer.ts';
import { coresInUse } from '../harness/cores.ts';
import { type Figure, median } from '../harness/figure.ts';

const ROUNDS = 6;
const EVENTS = 10;

type Rounds = Readonly<Record<Variant, BatchesResult[]>>;

/** Rounds of all in turn, so that what else the machine does meets all. */
async function rounds(bench: Bench): Promise<Rounds> {
  const database = await bench.server.database();
  const consumer = await startConsumer(bench, database);
  const results = Object.fromEntries(VARIANTS.map((variant) => [variant, []])) as unknown as Rounds;
  const round = (variant: Variant, invoices: number): Promise<BatchesResult> =>
    consumer.batches({ variant, invoices, events: EVENTS });
  try {
    for (const variant of VARIANTS) await round(variant, sized(bench, 200));
    for (let n = 0; n < ROUNDS; n += 1) {
      for (const variant of n % 2 === 0 ? VARIANTS : VARIANTS.toReversed()) {
        results[variant].push(await round(variant, sized(bench, 300)));
      }
    }
    return results;
  } finally {
    await consumer.stop();
    await database.drop();
  }
}

async function run(bench: Bench): Promise<Figure[]> {
  const cores = coresInUse();
  const results = await rounds(bench);
  const inUse = cores();
  const ratio = (of: (result: BatchesResult) => number, a: Variant, b: Variant): number =>
    median(results[a].map((result, n) => of(result) / of(results[b][n] ?? result)));
  const seconds = ({ seconds: it }: BatchesResult): number => it;
  const cpu = ({ cpuSeconds, serverCpuSeconds }: BatchesResult): number => cpuSeconds + serverCpuSeconds;
  const middle = (of: (result: BatchesResult) => number, variant: Variant): number => median(results[variant].map(of));
  const rate = (variant: Variant): Figure => ({
    name: `  ${NAMES[variant]}`,
    value: middle((result) => result.events / result.seconds, variant),
    unit: 'effects/s',
  });
  const perThousand = (what: string, of: (result: BatchesResult) => number, unit: string): Figure[] =>
    VARIANTS.map((variant) => ({
      name: `${what} per 1,000 events, ${NAMES[variant]}`,
      value: middle((result) => (of(result) * 1000) / result.events, variant),
      unit,
    }));
  const overhead = (name: string, a: Variant, b: Variant, goal?: Figure['goal']): Figure[] => [
    { name, value: 100 * (ratio(seconds, a, b) - 1), unit: '%', ...(goal !== undefined && { goal }) },
    { name: `${name}, in CPU`, value: 100 * (ratio(cpu, a, b) - 1), unit: '%' },
  ];
  return [
    {
      name: 'batches of 10 ÷ one transaction per message',
      value: ratio(seconds, 'alone', 'together'),
      unit: '×',
      goal: { atLeast: 3 },
    },
    rate('together'),
    rate('alone'),
    { name: '  the same of the bare handlers', value: ratio(seconds, 'bareAlone', 'bare'), unit: '×' },
    { name: '  with handlers of one event each', value: ratio(seconds, 'alone', 'each'), unit: '×' },
    rate('each'),
    { name: '  with one connection instead of four', value: ratio(seconds, 'oneAlone', 'oneTogether'), unit: '×' },
    rate('oneTogether'),
    rate('oneAlone'),
    ...overhead('dedupe and order over the bare handlers', 'together', 'bare', { atMost: 15 }),
    rate('bare'),
    ...overhead('  two plain writes over the bare handlers', 'floor', 'bare'),
    ...overhead('  dedupe and order over two plain writes', 'together', 'floor'),
    ...overhead('dedupe and order over handlers of one event each', 'each', 'eachBare', { atMost: 15 }),
    rate('eachBare'),
    ...overhead('  two plain writes over these', 'eachFloor', 'eachBare'),
    ...overhead('  one transaction per message', 'alone', 'bareAlone'),
    ...perThousand('CPU of the consumer', ({ cpuSeconds }) => 1000 * cpuSeconds, 'ms'),
    ...perThousand('CPU of the server', ({ serverCpuSeconds }) => 1000 * serverCpuSeconds, 'ms'),
    ...perThousand('round trips', ({ statements }) => statements, ''),
    ...perThousand('transactions', ({ transactions }) => transactions, ''),
    { name: 'cores in use', value: inUse, unit: '' },
  ];
}

const NAMES: Readonly<Record<Variant, string>> = {
  together: 'batches of 10',
  alone: 'one transaction per message',
  bare: 'bare handlers',
  bareAlone: 'bare handlers, each in its own',
  floor: 'bare handlers and two plain writes',
  each: 'batches of 10, one event a call',
  eachBare: 'bare handlers, one event a call',
  eachFloor: 'bare handlers, one event a call, and two plain writes',
  oneTogether: 'batches of 10, one connection',
  oneAlone: 'one transaction per message, one connection',
};

export const effects: Benchmark = {
  name: 'effects',
  what: 'effects of batches of ten against one transaction per message, and both against the handlers alone',
  minutes: 4,
  run,
};
